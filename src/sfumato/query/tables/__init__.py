"""Tables made of tables: joined, shaped, made up; their privacy units; as plain data, without rows."""
