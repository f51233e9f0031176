"""What the dashboard's own commands do: `do_<word>` for every such word of the command table.

Modules that only one command needs are imported when it runs: the first paint does not wait for them.
"""
