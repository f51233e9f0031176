"""imi: one terminal pane for many coding agents, and the command line they call."""

__version__ = "0.1.0"
