"""What people are shown of tables, questions, plans and releases; nothing is read, drawn or spent for it."""
