"""Items from JSON: one object, a list of objects, or one object per line, with the keys that `imi item add --help` lists."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping

from imi_monitor.actions.board import item_lookup
from imi_monitor.model import board, names
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store.items import NewItem

KEYS = (
    "title",
    "text",
    "priority",
    "status",
    "batch",
    "kind",
    "source",
    "external_id",
    "correlation_id",
    "team",
    "agent",
)
_ALIASES = {"description": "text", "id": "external_id", "task_id": "external_id", "agent_id": "agent"}
_MOST_BYTES = 8 << 20
_MOST_LABEL = 200


def read(file: str) -> str:
    """The text of a file, or with `-` of the standard input."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{safe(file, 200)} cannot be read: {error.strerror}", code="bad-input") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{safe(file, 200)} has more than {_MOST_BYTES >> 20} MB", code="bad-input")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{safe(file, 200)} is not UTF-8 text", code="bad-input") from error


def parse(text: str, repo_name: str | None) -> list[NewItem]:
    """The items of a JSON text; UsageError names the first one that is wrong."""
    return [_item(number, found, repo_name) for number, found in _objects(text)]


def _objects(text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    try:
        whole = json.loads(text)
        each = list(enumerate(whole if isinstance(whole, list) else [whole], 1))
    except ValueError:
        each = [(number, _parsed(number, line)) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    except RecursionError as error:
        raise UsageError("the JSON is nested too deeply", code="bad-input") from error
    if not each:
        raise UsageError("the input has no items: give JSON objects with a title", code="bad-input")
    for number, found in each:
        if not isinstance(found, dict):
            raise UsageError(f"entry {number} is no JSON object", code="bad-input")
        yield number, found


def _parsed(number: int, line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is no JSON: {safe(line, 60)!r}", code="bad-input") from error


def _item(number: int, found: Mapping[str, object], repo_name: str | None) -> NewItem:
    named = {_ALIASES.get(key, key): value for key, value in found.items() if value is not None}
    unknown = sorted(set(named).difference(KEYS))
    if unknown:
        raise UsageError(
            f"entry {number} has the unknown key {safe(unknown[0], 60)!r}: use {', '.join(KEYS)}", code="bad-input"
        )
    values = {key: _text(number, key, value) for key, value in named.items()}
    if not values.get("title", "").strip():
        raise UsageError(f"entry {number} has no title", code="bad-input")
    try:
        values["priority"] = item_lookup.priority_of(values.get("priority", board.MEDIUM))
        values["status"] = item_lookup.status_of(values.get("status", board.PENDING))
        agent = values.pop("agent", None)
        if agent is not None:
            item_lookup.agent_of(agent)
    except ImiError as error:
        raise UsageError(f"entry {number}: {error.sentence}", code="bad-input") from error
    return NewItem(**values, agent_id=agent, repo_name=repo_name)


def _text(number: int, key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"entry {number}: {key} must be a text", code="bad-input")
    text = str(value)
    if key in ("title", "text"):
        return text.encode("utf-8", "replace").decode()
    problem = names.label_problem(text, _MOST_LABEL)
    if problem:
        raise UsageError(f"entry {number}: {key} {problem}", code="bad-input")
    return text
