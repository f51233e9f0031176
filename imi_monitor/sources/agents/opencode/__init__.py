"""opencode: its database, and its server where it has one."""
