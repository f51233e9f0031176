"""Which agent programs run on this machine, and in which folder."""
