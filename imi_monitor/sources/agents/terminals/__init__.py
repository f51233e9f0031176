"""What terminals show of any agent: the titles of panes in tmux and Zellij."""
