"""What is: plain values and pure functions. No input, no output."""
