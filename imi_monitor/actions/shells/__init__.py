"""What shells need: the function that changes directory, and completion."""
