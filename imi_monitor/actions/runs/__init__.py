"""Actions on runs: start, list, read, answer, stop."""
