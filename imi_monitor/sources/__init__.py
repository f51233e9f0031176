"""The outside world turned into readings."""
