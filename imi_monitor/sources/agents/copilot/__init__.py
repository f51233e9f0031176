"""GitHub Copilot: the events it writes down."""
