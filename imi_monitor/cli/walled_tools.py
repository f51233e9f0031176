"""imi's tools behind a wall: the registry is out of reach there, so a call goes through the request folder of the run.

Outside, the same tool runs as this agent. The tools of files work inside, and are not passed on.
"""

from __future__ import annotations

import os

from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.runs.agent_variables import REQUESTS_VARIABLE, WALL_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.action import Action, Request


def is_forwarded(name: str) -> bool:
    if not (os.environ.get(WALL_VARIABLE) and os.environ.get(REQUESTS_VARIABLE)):
        return False
    from imi_monitor.runs.contained import request_folder  # 10 MB, of which `imi mcp` has no other use

    return name in request_folder.TOOLS


def call(name: str, arguments: dict[str, object], cancelled: Callable[[], bool]) -> dict[str, object]:
    """The result of the tool outside."""
    from imi_monitor.runs.contained import request_folder

    seconds = arguments.get("wait")
    patience = float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else 0.0
    try:
        return request_folder.call(os.environ[REQUESTS_VARIABLE], name, arguments, patience, cancelled)
    except (ImiError, OSError) as error:
        text = error.sentence if isinstance(error, ImiError) else f"imi cannot be asked from here: {error.strerror}"
        return {"content": [{"type": "text", "text": text}], "isError": True}


def run(action: Action, request: Request) -> Outcome | None:
    """The outcome of a command as its tool gives it outside; None: the command works inside."""
    offered = [tool for tool in action.tools if is_forwarded(tool.name)]
    if not offered:
        return None
    given = {name: _joined(value) for name, value in request.values.items() if value not in (None, [], False)}
    places = {argument.name for argument in action.arguments}
    for tool in offered:
        if set(tool.needs) <= set(given) <= {*places, *tool.options, *tool.needs}:
            result = call(tool.name, given, lambda: False)
            return _outcome(result)
    known = sorted({name for tool in offered for name in (*tool.options, *tool.needs)} - places)
    raise Refused(
        f"behind a wall `imi {request.verb}` takes only {', '.join(f'--{name}' for name in known) or 'its arguments'}",
        code="walled",
    )


def _joined(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _outcome(result: dict[str, object]) -> Outcome:
    content, data = result.get("content"), result.get("structuredContent")
    text = str(content[0].get("text", "")) if isinstance(content, list) and content else str(result.get("message", ""))
    if not isinstance(data, dict):
        raise Refused(text, code="refused")
    return Outcome(
        text.split("\n"),
        {name: value for name, value in data.items() if name != "text"},
        exit_status=int(bool(result.get("isError"))),
    )
