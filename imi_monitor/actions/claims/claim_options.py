"""What the claim verbs take: the words of their command lines, checked before anything is opened. Lean."""

from __future__ import annotations

from imi_monitor.actions.action import Argument, Option
from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import OURS
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

MOST_TEXT = 500
NAME = Argument("name", "the worktree, as `imi list` shows it")
AGENT = Option("agent", "who acts; else IMI_AGENT_ID, else human:$USER", value="ID", aliases=("agent-id", "yi-id"))
EPOCH = Option("epoch", "only if the claim still has this epoch", value="N", number=True)


def agent(context: Context, request: Request) -> str:
    """Who acts; the names that stand for imi's own acts are nobody's."""
    who = context.agent(request)
    if who.startswith(OURS):
        raise UsageError(f"agent {safe(who)!r} is reserved for imi itself: choose another name", code="bad-agent")
    return who


def epoch(request: Request) -> int | None:
    value = request.number("epoch")
    if value is not None and value != int(value):
        raise UsageError(f"--epoch must be a whole number, not {value:g}", code="bad-option")
    return None if value is None else int(value)


def short_text(request: Request, option: str) -> str | None:
    """The value of an option that is stored for ever and shown to others."""
    text = request.text(option)
    if text is None:
        return None
    if not text.strip():
        raise UsageError(f"--{option} is empty: say something, or leave it out", code="bad-option")
    if len(text) > MOST_TEXT:
        raise UsageError(f"--{option} is {len(text)} characters long: at most {MOST_TEXT}", code="bad-option")
    return text
