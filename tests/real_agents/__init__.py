"""The real agent programs, driven in tmux against a stub model, and what imi says of each state: `make agents`."""
