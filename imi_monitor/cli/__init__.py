"""The command line: parse, call an action, print.

MODULES is the registry of the verbs that belong to the command line alone. It works like `actions.MODULES`.
"""

MODULES = (
    "imi_monitor.cli.dashboard_command",
    "imi_monitor.cli.watch_command",
    "imi_monitor.cli.serve_command",
    "imi_monitor.cli.web_command",
    "imi_monitor.cli.mcp_command",
    "imi_monitor.cli.demo_command",
    "imi_monitor.cli.agents_command",
    "imi_monitor.cli.shell_command",
    "imi_monitor.cli.context_open_command",
    "imi_monitor.cli.reset_terminal_command",
)
