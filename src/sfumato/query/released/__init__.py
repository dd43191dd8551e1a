"""What a release shows, keeps and leaves behind: tables, files, pictures, receipts."""
