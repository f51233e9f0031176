"""Plain values and pure functions: no input, no output."""
