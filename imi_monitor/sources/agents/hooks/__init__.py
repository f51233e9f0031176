"""Events that the hooks of any agent program write into imi's spool."""
