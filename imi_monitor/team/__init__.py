"""What one process of a home does for the team: the duties, and the lock that decides which process has them."""
