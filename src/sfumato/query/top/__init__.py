"""The largest groups: what is asked, planned, drawn and shown."""
