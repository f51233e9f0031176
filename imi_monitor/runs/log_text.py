"""What an agent did as lines of text, for `imi logs` and the logs of jobs."""

from __future__ import annotations

from functools import lru_cache

from imi_monitor.model import times
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.agent import AgentEvent

_SIGNS = {
    "prompt": ">",
    "message": " ",
    "tool_started": "$",
    "tool_finished": "=",
    "waits": "?",
    "failed": "!",
    "cancelled": "!",
    "completed": ".",
}
_LONGEST = 4000


def entry_lines(one: AgentEvent) -> list[str]:
    """One entry: clock, sign and text; further lines are indented."""
    sign, tool = _SIGNS.get(one.kind, "-"), one.tool
    text = str(tool) if one.kind == "tool_started" and tool else one.text or one.kind
    if one.kind == "tool_finished":
        text = {True: "", False: "failed: ", None: "cancelled "}[one.ok] + (one.text or "")
    first, *others = [safe(line, _LONGEST) for line in text.splitlines()] or [""]
    return [f"{_clock(one.at)} {sign} {first}", *(f"{'':8}   {line}" for line in others)]


@lru_cache(maxsize=64)
def _clock(at: str) -> str:
    """The local time of day; many entries are of one moment."""
    moment = times.parse(at)
    return moment.astimezone().strftime("%H:%M:%S") if moment else "        "
