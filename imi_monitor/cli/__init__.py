"""The command line: parse, call an action, print."""
