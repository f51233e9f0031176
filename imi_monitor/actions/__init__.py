"""What can be done: one file each, used by keys, palette and command line alike.

MODULES is the registry: a module of this folder and the verbs it serves. Nothing is imported until its verb is asked
for, because `imi claim` must not pay for `imi review`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action

MODULES: dict[str, tuple[str, ...]] = {
    "imi_monitor.actions.creation.create_action": ("feat", "fix", "aiops", "devops", "add"),
    "imi_monitor.actions.reviews.review_action": ("review", "pr"),
    "imi_monitor.actions.status.go_action": ("go", "trunk"),
    "imi_monitor.actions.status.status_action": ("list", "ls", "status"),
    "imi_monitor.actions.status.diff_action": ("diff",),
    "imi_monitor.actions.status.log_action": ("log",),
    "imi_monitor.actions.claims.claim_action": ("claim",),
    "imi_monitor.actions.claims.heartbeat_action": ("heartbeat",),
    "imi_monitor.actions.claims.verify_action": ("verify-lock", "check-lock"),
    "imi_monitor.actions.claims.release_action": ("release",),
    "imi_monitor.actions.claims.claims_action": ("claims", "queue"),
    "imi_monitor.actions.removal.remove_action": ("remove", "rm", "close", "cancel"),
    "imi_monitor.actions.removal.trash_action": ("undo", "trash list", "trash restore", "trash purge"),
    "imi_monitor.actions.status.collisions_action": ("collisions",),
    "imi_monitor.actions.worktree.merge_action": ("merge",),
    "imi_monitor.actions.worktree.rename_action": ("rename", "mv"),
    "imi_monitor.actions.removal.prune_action": ("prune", "cleanup"),
    "imi_monitor.actions.worktree.repair_action": ("repair",),
    "imi_monitor.actions.sync.sync_action": ("sync",),
    "imi_monitor.actions.setup.trust_action": ("trust",),
    "imi_monitor.actions.setup.types_action": ("types list", "types add", "types remove"),
    "imi_monitor.actions.history.events_action": ("events",),
    "imi_monitor.actions.history.sessions_action": ("sessions", "session show"),
    "imi_monitor.actions.history.stats_action": ("stats",),
    "imi_monitor.actions.history.tasks_action": ("tasks",),
    "imi_monitor.actions.history.describe_action": ("agents describe",),
    "imi_monitor.actions.setup.doctor_action": ("doctor",),
    "imi_monitor.actions.setup.config_action": ("paths", "config"),
    "imi_monitor.cli.shell_command": ("shell-init", "completion"),
    "imi_monitor.actions.hooks.hooks_action": ("hooks install", "hooks status", "hooks", "hooks uninstall"),
}


def find(verb: str) -> Action | None:
    """The action behind a verb; None when there is none."""
    for module, verbs in MODULES.items():
        if verb in verbs:
            return next(action for action in _load(module) if verb in action.words)
    return None


def verbs() -> list[str]:
    return [verb for names in MODULES.values() for verb in names]


def all_actions() -> list[Action]:
    """Every action, in the order of the registry: for help, palette and completion."""
    return [action for module in MODULES for action in _load(module)]


def _load(module: str) -> tuple[Action, ...]:
    loaded = __import__(module, fromlist=["ACTIONS"])
    actions: tuple[Action, ...] = loaded.ACTIONS
    return actions
