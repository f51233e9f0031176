"""Arguments and options of the claim verbs, checked before the registry is opened. Lean."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Argument, Option
from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import OURS
from imi_monitor.model.text import safe
from imi_monitor.store import claim_holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.claim_holder import Caller

MAX_TEXT = 500
MAX_SESSION = 200
NAME = Argument("name", "the worktree, as `imi list` shows it; HOST:NAME for one of another machine of the team")
AGENT = Option(
    "agent", "the acting agent; default: IMI_AGENT_ID, then human:$USER", value="ID", aliases=("agent-id", "yi-id")
)
SESSION = Option(
    "session", "the session of the claim, if its process or terminal is another; default: IMI_SESSION_ID", value="ID"
)
EPOCH = Option("epoch", "refuse if the claim has another epoch", value="N", number=True)


def agent(context: Context, request: Request) -> str:
    """The acting agent. Refuses the names that imi uses for its own operations."""
    name = context.agent(request)
    if name.startswith(OURS):
        raise UsageError(f"agent {safe(name)!r} is reserved for imi itself: choose another name", code="bad-agent")
    return name


def caller(request: Request) -> Caller:
    """The calling process and session. `--pid` or IMI_AGENT_PID names the agent's process, `--session` or IMI_SESSION_ID
    its session."""
    given, source = request.text("session"), "--session"
    if given is None:
        given, source = os.environ.get("IMI_SESSION_ID") or None, "IMI_SESSION_ID"
    if given is not None and (not given.strip() or not given.isprintable() or len(given) > MAX_SESSION):
        raise UsageError(
            f"{source} must be a text of at most {MAX_SESSION} characters without control characters",
            code="bad-session",
        )
    return claim_holder.identify_caller(given, pid(request))


def elsewhere(context: Context, request: Request) -> str | None:
    """The name if it is HOST:NAME, a worktree of another machine; None for one of this machine."""
    name = request.text("name") or ""
    if ":" not in name:
        return None
    from imi_monitor.actions.team import remote_claim

    return name if remote_claim.names_home(context, name) else None


def pid(request: Request) -> int | None:
    """The agent's process: `--pid`, else IMI_AGENT_PID; None: no process is named."""
    given, source = request.number("pid"), "--pid"
    if given is None:
        text, source = os.environ.get("IMI_AGENT_PID"), "IMI_AGENT_PID"
        if not text:
            return None
        given = float(text) if text.isdecimal() and text.isascii() and len(text) < 11 else 0.0
    number = int(given)
    if number != given or not 0 < number < 1 << 31:
        raise UsageError(f"{source} must be the number of a process", code="bad-pid")
    return number


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
