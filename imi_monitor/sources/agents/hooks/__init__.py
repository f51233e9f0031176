"""What the hooks of any agent program have told, read from the spool."""
