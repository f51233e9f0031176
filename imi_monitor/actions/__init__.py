"""Actions: what a user can do, one module each, shared by keys, palette, menus and the command line.

MODULES is the registry. A new action takes its module and one line here; `make docs` then writes the command table, in
which verbs, keys and help are looked up without importing any action: `imi claim` must not load `imi review`.
"""

from __future__ import annotations

from imi_monitor import command_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action

MODULES = (
    "imi_monitor.actions.creation.create_action",
    "imi_monitor.actions.reviews.review_action",
    "imi_monitor.actions.reviews.pull_requests_action",
    "imi_monitor.actions.status.go_action",
    "imi_monitor.actions.worktree.rename_action",
    "imi_monitor.actions.sync.sync_action",
    "imi_monitor.actions.worktree.command_action",
    "imi_monitor.actions.setup.types_action",
    "imi_monitor.actions.status.status_action",
    "imi_monitor.actions.status.where_action",
    "imi_monitor.actions.status.overview_action",
    "imi_monitor.actions.status.diff_action",
    "imi_monitor.actions.files.stage_action",
    "imi_monitor.actions.files.read_action",
    "imi_monitor.actions.status.log_action",
    "imi_monitor.actions.status.collisions_action",
    "imi_monitor.actions.housekeeping.disk_action",
    "imi_monitor.actions.history.events_action",
    "imi_monitor.actions.history.query_action",
    "imi_monitor.actions.history.history_action",
    "imi_monitor.actions.team.hosts_action",
    "imi_monitor.actions.claims.claim_action",
    "imi_monitor.actions.claims.heartbeat_action",
    "imi_monitor.actions.claims.verify_action",
    "imi_monitor.actions.claims.release_action",
    "imi_monitor.actions.claims.claims_action",
    "imi_monitor.actions.team.reserve_action",
    "imi_monitor.actions.worktree.merge_action",
    "imi_monitor.actions.worktree.publish_actions",
    "imi_monitor.actions.worktree.update_action",
    "imi_monitor.actions.removal.remove_action",
    "imi_monitor.actions.removal.trash_action",
    "imi_monitor.actions.removal.prune_action",
    "imi_monitor.actions.worktree.repair_action",
    "imi_monitor.actions.runs.start_action",
    "imi_monitor.actions.runs.resume_action",
    "imi_monitor.actions.runs.runs_action",
    "imi_monitor.actions.runs.checkpoints_action",
    "imi_monitor.actions.runs.logs_action",
    "imi_monitor.actions.runs.archive_actions",
    "imi_monitor.actions.runs.message_actions",
    "imi_monitor.actions.runs.attach_action",
    "imi_monitor.actions.runs.stop_action",
    "imi_monitor.actions.runs.compare_action",
    "imi_monitor.actions.board.board_action",
    "imi_monitor.actions.board.batch_action",
    "imi_monitor.actions.board.item_actions",
    "imi_monitor.actions.board.item_start_action",
    "imi_monitor.actions.board.item_status_actions",
    "imi_monitor.actions.board.item_template_action",
    "imi_monitor.actions.board.sync_state_action",
    "imi_monitor.actions.board.watch_actions",
    "imi_monitor.actions.contained.file_actions",
    "imi_monitor.actions.contained.workspace_actions",
    "imi_monitor.actions.notes.notes_action",
    "imi_monitor.actions.notes.logged_notes_action",
    "imi_monitor.actions.notes.context_action",
    "imi_monitor.actions.history.sessions_action",
    "imi_monitor.actions.history.tasks_action",
    "imi_monitor.actions.history.stats_action",
    "imi_monitor.actions.history.describe_action",
    "imi_monitor.actions.hooks.hooks_action",
    "imi_monitor.actions.mcp.mcp_action",
    "imi_monitor.actions.setup.trust_action",
    "imi_monitor.actions.setup.layout_action",
    "imi_monitor.actions.setup.doctor_action",
    "imi_monitor.actions.setup.config_action",
    "imi_monitor.actions.history.archive_action",
    "imi_monitor.actions.housekeeping.backup_action",
    "imi_monitor.actions.housekeeping.uninstall_action",
)
"""The modules of the actions, in the order of the help pages. Each ends with `ACTIONS`, a tuple of its actions."""


def find(verb: str) -> Action | None:
    """The action that has this verb, or None. Front-end verbs (`watch`, `demo`) count as actions here."""
    module = command_table.VERBS.get(verb)
    return next(action for action in load(module) if verb in action.words) if module is not None else None


def verbs() -> list[str]:
    """Every verb and alias, in the order of the help pages."""
    return list(command_table.VERBS)


def all_actions() -> list[Action]:
    """Every action and front-end verb, in the order of the help pages."""
    return [action for module in dict.fromkeys(command_table.VERBS.values()) for action in load(module)]


def load(module: str) -> tuple[Action, ...]:
    """The actions that a module declares."""
    loaded = __import__(module, fromlist=["ACTIONS"])
    actions: tuple[Action, ...] = loaded.ACTIONS
    return actions
