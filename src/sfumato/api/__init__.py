"""What people hold: tables, questions about them, and their largest groups."""
