"""What can be done: one file each, used by keys, palette and command line alike.

MODULES is the registry: a module of this folder and the verbs it serves. Nothing is imported until its verb is asked
for, because `imi claim` must not pay for `imi review`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.base import Action

MODULES: dict[str, tuple[str, ...]] = {
    "creation.create_action": ("feat", "fix", "aiops", "devops", "add"),
    "review": ("review", "pr"),
    "go": ("go", "trunk"),
    "listing": ("list", "ls", "status"),
    "diff": ("diff",),
    "log": ("log",),
    "claim": ("claim",),
    "heartbeat": ("heartbeat",),
    "verify": ("verify-lock", "check-lock"),
    "release": ("release",),
    "claims": ("claims", "queue"),
    "remove": ("remove", "rm", "close", "cancel"),
    "undo": ("undo",),
    "trash": ("trash list", "trash restore", "trash purge"),
    "collisions": ("collisions",),
    "merge": ("merge",),
    "rename": ("rename", "mv"),
    "prune": ("prune", "cleanup"),
    "repair": ("repair",),
    "sync": ("sync",),
    "trust": ("trust",),
    "types": ("types list", "types add", "types remove"),
    "events": ("events",),
    "sessions": ("sessions", "session show"),
    "stats": ("stats",),
    "tasks": ("tasks",),
    "describe": ("agents describe",),
    "doctor": ("doctor",),
    "settings": ("paths", "config"),
    "shell": ("shell-init", "completion"),
    "hooks": ("hooks install", "hooks status", "hooks", "hooks uninstall"),
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
    loaded = __import__(f"{__name__}.{module}", fromlist=["ACTIONS"])
    actions: tuple[Action, ...] = loaded.ACTIONS
    return actions
