"""Arguments and options of the claim verbs, checked before the registry is opened. Lean."""

from __future__ import annotations

from imi_monitor.actions.action import Argument, Option
from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import OURS
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

MAX_TEXT = 500
NAME = Argument("name", "the worktree, as `imi list` shows it")
AGENT = Option(
    "agent", "the acting agent; default: IMI_AGENT_ID, then human:$USER", value="ID", aliases=("agent-id", "yi-id")
)
EPOCH = Option("epoch", "refuse if the claim has another epoch", value="N", number=True)


def agent(context: Context, request: Request) -> str:
    """The acting agent. Refuses the names that imi uses for its own operations."""
    name = context.agent(request)
    if name.startswith(OURS):
        raise UsageError(f"agent {safe(name)!r} is reserved for imi itself: choose another name", code="bad-agent")
    return name


def epoch(request: Request) -> int | None:
    value = request.number("epoch")
    if value is not None and value != int(value):
        raise UsageError(f"--epoch must be a whole number, not {value:g}", code="bad-option")
    return None if value is None else int(value)


def short_text(request: Request, option: str) -> str | None:
    """The value of a text option, which is stored for good and shown to others."""
    text = request.text(option)
    if text is None:
        return None
    if not text.strip():
        raise UsageError(f"--{option} is empty: give a text, or leave it out", code="bad-option")
    if len(text) > MAX_TEXT:
        raise UsageError(f"--{option} has {len(text)} characters: at most {MAX_TEXT}", code="bad-option")
    return text
