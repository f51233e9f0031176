"""Replacements for standard-library modules that cost too much time at start-up. `python -m bench fast` measures each gain."""
