"""Reads the sessions of an opencode.db: their rows, their last messages and the parts of these.

`message.data` and `part.data` are JSON of opencode's own shape (1.2 to 1.18 are known); older versions lack some columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.foreign_db import ForeignDatabase, Row, Unreadable, placeholders

NEEDED = frozenset({"id", "directory", "time_updated"})
_WANTED = (
    "id",
    "parent_id",
    "directory",
    "title",
    "version",
    "agent",
    "model",
    "cost",
    "tokens_input",
    "tokens_output",
    "tokens_cache_read",
    "time_created",
    "time_updated",
    "time_compacting",
    "time_archived",
)
_RECENT = 12  # messages that are kept
_CHANGING = 3  # the last messages; older ones no longer change
_MOST = 200
_AT_ONCE = 500  # values in one question


@dataclass(frozen=True, slots=True)
class MessagePart:
    id: str
    data: dict[str, Any]
    created: int
    updated: int

    @property
    def kind(self) -> str | None:
        return fields.text(self.data.get("type"))

    @property
    def state(self) -> dict[str, Any]:
        return fields.table(self.data.get("state"))


@dataclass(frozen=True, slots=True)
class OpenCodeMessage:
    id: str
    data: dict[str, Any]
    created: int
    updated: int
    parts: tuple[MessagePart, ...] = ()

    @property
    def role(self) -> str | None:
        return fields.text(self.data.get("role"))

    @property
    def completed(self) -> int | None:
        return fields.number(fields.table(self.data.get("time")).get("completed"))


class MessageWindow:
    """The last messages of one session, oldest first, with the prompt they answer, however far back.

    A read asks for the times of the last few, and for the contents of those that changed.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.messages: tuple[OpenCodeMessage, ...] = ()
        self.changed: tuple[OpenCodeMessage, ...] = ()  # those that changed at the last read
        self._summary: Row = {}
        self._parts: dict[str, tuple[tuple[int, int], MessagePart]] = {}
        self._versions: dict[str, tuple[int, int]] = {}

    def read(self, database: ForeignDatabase) -> bool:
        """Read what changed; False if nothing did."""
        (now,) = database.rows(_SUMMARY, self.session)
        if now == self._summary:
            return False
        before = {one.id for one in self.messages}
        heads = self._newest_rows(database, _CHANGING)
        if not any(each["id"] in self._versions for each in heads):
            heads = self._newest_rows(database, _RECENT)
        parts = _rows_by_id(database, f"select id, message_id, {_VERSION} from part where message_id in", heads)
        fresh = {str(row["id"]) for row in heads if self._versions.get(str(row["id"])) != _version(row)}
        new = {str(row["id"]) for row in parts if self._part_version(str(row["id"])) != _version(row)}
        oldest = min(((_number(row, "time_created"), str(row["id"])) for row in heads), default=(0, ""))
        ids = {str(row["id"]) for row in heads}
        kept = [one for one in self.messages if (one.created, one.id) < oldest or one.id in ids]
        self._read_parts(database, new)
        found = {one.id: one for one in (*kept, *_messages(database, fresh))}
        self._versions |= {str(row["id"]): _version(row) for row in heads}
        of: dict[str, list[MessagePart]] = {}
        for row in parts:
            of.setdefault(str(row["message_id"]), []).append(self._parts[str(row["id"])][1])
        for each in ids & found.keys():
            found[each] = replace(found[each], parts=tuple(sorted(of.get(each, ()), key=lambda part: part.id)))
        self.messages = self._with_prompt(database, sorted(found.values(), key=lambda one: (one.created, one.id)))
        self._forget()
        fresh |= {str(row["message_id"]) for row in parts if str(row["id"]) in new}
        self.changed = tuple(one for one in self.messages if one.id in fresh or one.id not in before)
        self._summary = now
        return True

    def _newest_rows(self, database: ForeignDatabase, most: int) -> list[Row]:
        question = (
            f"select id, {_VERSION} from message where session_id = ? order by time_created desc, id desc limit {most}"
        )
        return database.rows(question, self.session)

    def _part_version(self, part: str) -> tuple[int, int] | None:
        known = self._parts.get(part)
        return known[0] if known else None

    def _read_parts(self, database: ForeignDatabase, ids: set[str]) -> None:
        question = f"select id, {_VERSION}, data from part where id in"
        for row in _rows_by_id(database, question, [{"id": each} for each in ids]):
            part = MessagePart(str(row["id"]), _data(row), _number(row, "time_created"), _number(row, "time_updated"))
            self._parts[part.id] = (_version(row), part)

    def _with_prompt(self, database: ForeignDatabase, found: list[OpenCodeMessage]) -> tuple[OpenCodeMessage, ...]:
        last, rest = found[-_RECENT:], found[:-_RECENT]
        if not last or any(one.role == "user" for one in last):
            return tuple(last)
        earlier = [one for one in rest if one.role == "user"][-1:]
        if not earlier:
            question = f"select id, {_VERSION}, data from message where session_id = ? and data like ?"
            order = " order by time_created desc, id desc limit 1"
            earlier = [_message(row) for row in database.rows(question + order, self.session, _USER)]
            parts = _rows_by_id(
                database, f"select id, {_VERSION} from part where message_id in", [{"id": one.id} for one in earlier]
            )
            self._read_parts(database, {str(row["id"]) for row in parts})
            own = tuple(self._parts[str(row["id"])][1] for row in parts if str(row["id"]) in self._parts)
            earlier = [replace(one, parts=own) for one in earlier]
        return (*earlier, *last)

    def _forget(self) -> None:
        kept = {one.id for one in self.messages}
        parts = {part.id for one in self.messages for part in one.parts}
        self._versions = {each: head for each, head in self._versions.items() if each in kept}
        self._parts = {each: part for each, part in self._parts.items() if each in parts}


def sessions(database: ForeignDatabase, since: int) -> list[Row]:
    """The sessions updated since then (in milliseconds), newest first, without those of subagents."""
    known = database.columns("session")
    if not known >= NEEDED:
        raise Unreadable("opencode.db has no table of sessions in a known form")
    names = ", ".join(name for name in _WANTED if name in known)
    question = f"select {names} from session where time_updated >= ? order by time_updated desc limit {_MOST}"
    return [row for row in database.rows(question, since) if not row.get("parent_id") and not row.get("time_archived")]


def updated(row: Row, known: Sequence[OpenCodeMessage]) -> int:
    """Return when anything of a session was last changed, in milliseconds."""
    parts = (part.updated for one in known[-1:] for part in one.parts)
    return max([_number(row, "time_updated"), *(one.updated for one in known), *parts])


_VERSION = "time_created, time_updated, length(data) as size"
# One short row that differs after any change of the last messages and their parts.
_SUMMARY = f"""
  select count(distinct m.id) as messages, max(m.time_created) as newest, max(m.time_updated) as moved,
    total(length(m.data)) as size, count(p.id) as parts, max(p.time_updated) as part_moved, total(length(p.data)) as part_size
  from message m left join part p on p.message_id = m.id
  where m.id in (select id from message where session_id = ? order by time_created desc, id desc limit {_CHANGING})
"""
_USER = '%"role":"user"%'


def _version(row: Row) -> tuple[int, int]:
    """Differs after any change of the row, also a second one within a millisecond."""
    return _number(row, "time_updated"), _number(row, "size")


def _number(row: Row, name: str) -> int:
    return fields.number(row.get(name)) or 0


def _rows_by_id(database: ForeignDatabase, question: str, rows: Sequence[Row]) -> list[Row]:
    ids = [str(row["id"]) for row in rows]
    found: list[Row] = []
    for at in range(0, len(ids), _AT_ONCE):
        some = ids[at : at + _AT_ONCE]
        found += database.rows(f"{question} ({placeholders(some)})", *some)
    return found


def _messages(database: ForeignDatabase, ids: set[str]) -> list[OpenCodeMessage]:
    question = f"select id, {_VERSION}, data from message where id in"
    return [_message(row) for row in _rows_by_id(database, question, [{"id": each} for each in ids])]


def _message(row: Row) -> OpenCodeMessage:
    return OpenCodeMessage(str(row["id"]), _data(row), _number(row, "time_created"), _number(row, "time_updated"))


def _data(row: Row) -> dict[str, Any]:
    return fields.record(row["data"]) or {} if isinstance(row["data"], (str, bytes)) else {}
