"""The tools of `imi mcp`: name, schema and answer made from the declarations of the actions. Actions are imported on use."""

from __future__ import annotations

import os

from imi_monitor import actions, command_table
from imi_monitor.actions.action import Request
from imi_monitor.cli import walled_tools
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import safe
from imi_monitor.runs.agent_variables import PLACE_VARIABLE, ROLE_VARIABLE, WALL_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.action import Action, Argument, Option, Outcome, Tool
    from imi_monitor.actions.context import Context

_WAITS = ("wait",)  # a tool with this option answers in a thread of its own
_WIDEST = 4096  # of one line of an answer
_BIGGEST_NUMBER = 1e12
_AGENT = "agent"


def _never() -> bool:
    return False


class ToolBox:
    """The tools for one agent. `instructions`: what it is told instead of the usual text; empty: nothing else."""

    def __init__(self, database: str | None, run: str | None = None) -> None:
        self._database = database
        self._list: list[dict[str, object]] | None = None
        self.instructions = ""
        if run is not None and not os.environ.get(WALL_VARIABLE):  # behind a wall the registry is out of reach
            _adopt_run(database, run)
        self._names_itself = not os.environ.get("IMI_AGENT_ID")
        if os.environ.get(PLACE_VARIABLE):
            from imi_monitor.model import roles

            self.instructions = roles.instructions(os.environ.get(ROLE_VARIABLE) or None)

    def has(self, name: str) -> bool:
        return name in command_table.TOOLS

    def may_wait(self, name: str) -> bool:
        return bool(set(_find(name)[1].options) & set(_WAITS))

    def list_tools(self) -> list[dict[str, object]]:
        if self._list is None:
            self._list = [self._described(name) for name in command_table.TOOLS if _is_offered(name)]
        return self._list

    def call(
        self, name: str, arguments: dict[str, object], cancelled: Callable[[], bool] = _never
    ) -> dict[str, object]:
        """The result of one call; what is refused is a result too, so that the agent can read why."""
        from imi_monitor.actions.context import Context

        action, tool = _find(name)
        if walled_tools.is_forwarded(name):
            return walled_tools.call(name, arguments, cancelled)
        notes: list[str] = []
        context = Context(database=self._database, notify=notes.append, cancelled=cancelled)
        context.tolerated_settings = action.tolerates
        try:
            with context:
                request = self._request(context, action, tool, arguments)
                outcome = _run(context, action, request)
        except ImiError as error:
            return _refused(error)
        except Exception as error:  # noqa: BLE001  the agent gets a sentence, the log the traceback
            from imi_monitor.cli import crash_log

            return _refused(crash_log.recorded(error))
        outcome.warnings = [*outcome.warnings, *context.notes, *notes]
        return _answer(outcome)

    def _request(self, context: Context, action: Action, tool: Tool, arguments: dict[str, object]) -> Request:
        """The request of a call, checked like a command line."""
        options = {option.name: option for option in _options(action, tool, self._names_itself)}
        places = {argument.name: argument for argument in action.arguments}
        unknown = [name for name in arguments if name not in options and name not in places]
        if unknown:
            raise UsageError(f"{tool.name} takes no {safe(unknown[0], 60)!r}", code="unknown-option")
        values: dict[str, object] = {}
        for name, value in arguments.items():
            if value is not None:
                values[name] = _value(name, value, options.get(name), places.get(name))
        if values.get(_AGENT) is None and self._names_itself and _AGENT in options:
            raise UsageError(f"{tool.name} needs agent: your name, the same in each call", code="missing")
        for name in tool.needs:
            if name not in values:
                raise UsageError(f"{tool.name} needs {name}", code="missing")
        _add_places(context, action, tool, values)
        if any(option.name == "pid" for option in action.options) and "IMI_AGENT_PID" not in os.environ:
            values |= _agent_process()
        values = {name: value for name, value in values.items() if value is not False}
        return Request(action.words[0], values)

    def _described(self, name: str) -> dict[str, object]:
        action, tool = _find(name)
        properties: dict[str, object] = {}
        needed = list(tool.needs)
        for argument in action.arguments:
            properties[argument.name] = _argument_schema(action, argument)
            if not (argument.optional or argument.name == action.worktree_value):
                needed.append(argument.name)
        for option in _options(action, tool, self._names_itself):
            properties[option.name] = _option_schema(option)
            if option.name == _AGENT:
                needed.append(_AGENT)
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if needed:
            schema["required"] = needed
        about = tool.help or action.help
        hints = {"readOnlyHint": not action.changes, "destructiveHint": action.dangerous, "openWorldHint": False}
        description = f"{about[0].upper()}{about[1:]}."
        return {
            "name": name,
            "title": action.label,
            "description": description,
            "inputSchema": schema,
            "annotations": {"title": action.label, **hints},
        }


def _find(name: str) -> tuple[Action, Tool]:
    for action in actions.load(command_table.TOOLS[name]):
        for tool in action.tools:
            if tool.name == name:
                return action, tool
    raise AssertionError(name)  # the table is generated from the actions


def _is_offered(name: str) -> bool:
    """Whether the tool works here; its action is not imported for that: those of files take 5 MB."""
    inside = command_table.TOOLS_INSIDE.get(name)
    return inside is None or bool(os.environ.get(inside))


def _options(action: Action, tool: Tool, names_itself: bool) -> list[Option]:
    """The options that the agent may give: those of the tool, and its name if nothing else says it."""
    named = [option for option in action.options if option.name == _AGENT] if names_itself else []
    return [*(option for option in action.options if option.name in (*tool.options, *tool.needs)), *named]


def _argument_schema(action: Action, argument: Argument) -> dict[str, object]:
    if argument.rest:
        return {"type": "string", "description": argument.help.partition(";")[0]}
    here = "; default: the one you are in" if argument.name == action.worktree_value and not argument.optional else ""
    return {"type": "string", "description": argument.help + here}


def _option_schema(option: Option) -> dict[str, object]:
    if option.name == _AGENT:
        return {"type": "string", "description": "your name, the same in each call, such as claude-api"}
    kind: dict[str, object] = {"type": "number", "minimum": 0} if option.number else {"type": "string"}
    if not option.value:
        kind = {"type": "boolean"}
    if option.choices and option.value:
        kind["enum"] = list(option.choices)
    return {**kind, "description": option.help}


def _value(name: str, value: object, option: Option | None, argument: Argument | None) -> object:
    """The value as the command line would give it; UsageError for one of another type."""
    if argument is not None and argument.rest:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a text", code="bad-option")
        return [value]
    if option is not None and not option.value:
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false", code="bad-option")
        return value
    if option is not None and option.number:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
        if not 0 <= number < _BIGGEST_NUMBER:
            raise UsageError(f"{name} must be a number, 0 or more", code="bad-option")
        return number
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text", code="bad-option")
    return value


def _add_places(context: Context, action: Action, tool: Tool, values: dict[str, object]) -> None:
    """Fill in the worktree around the agent, and refuse what is missing."""
    for argument in action.arguments:
        if argument.name in values:
            continue
        if argument.rest:
            values[argument.name] = []
        elif argument.name == action.worktree_value and not argument.optional:
            place = context.place()
            if place is None or not place.path:
                raise UsageError(f"you are not in a worktree: give {argument.name}", code="no-worktree")
            values[argument.name] = os.path.basename(place.path)
        elif not argument.optional:
            raise UsageError(f"{tool.name} needs {argument.name}: {argument.help}", code="missing")


def _agent_process() -> dict[str, object]:
    """The agent's process, which holds the other end of the streams; none where that is the system's first process."""
    parent = os.getppid()
    return {"pid": float(parent)} if parent > 1 else {}


def _run(context: Context, action: Action, request: Request) -> Outcome:
    if action.needs_registry:
        action.refuse(context, request)
        return action.run(context, request)
    from imi_monitor.actions import without_registry

    return without_registry.run(context, lambda: action.run(context, request), again=not action.changes)


def _answer(outcome: Outcome) -> dict[str, object]:
    lines = [*outcome.lines, *(f"warning: {text}" for text in outcome.warnings)]
    if outcome.path is not None:
        lines.append(outcome.path)
    said = _text(lines)
    # Claude shows a model the structured content only, so the text is in it too
    data = {"text": said["content"][0]["text"], **outcome.data}
    return {**said, "structuredContent": data, "isError": outcome.exit_status != 0}


def _refused(error: ImiError) -> dict[str, object]:
    return {**_text([error.sentence, *error.details]), "isError": True}


def _text(lines: list[str]) -> dict[str, list[dict[str, str]]]:
    return {"content": [{"type": "text", "text": "\n".join(safe(line, _WIDEST) for line in lines)}]}


def _adopt_run(database: str | None, run: str) -> None:
    """Act as the agent of this run: some programs do not pass their environment on."""
    from imi_monitor.actions.context import Context
    from imi_monitor.cli import output
    from imi_monitor.store import db, runs

    try:
        with Context(database=database) as context:
            row = db.read(context.connection, runs.by_id, run)
    except ImiError as error:
        output.note(f"imi: the run is unknown: {error.sentence}")
        return
    if row is not None:
        named = {
            "IMI_RUN_ID": row.id,
            "IMI_RUN_DIR": row.folder,
            "IMI_AGENT_ID": row.agent_id,
            "IMI_SESSION_ID": row.id,
        }
        os.environ.update(named)
