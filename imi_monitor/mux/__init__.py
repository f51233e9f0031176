"""tmux and Zellij: list their panes, open a worktree in one, focus the pane of an agent."""
