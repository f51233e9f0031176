"""What opencode.db tells of one session: the session, its last messages and their parts, each with a lenient meaning.

`message.data` and `part.data` are JSON of opencode's own shape (1.2 to 1.18 seen); older programs lack some columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.foreign_db import Database, Row, Unreadable, placeholders

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
_RECENT = 12  # messages that are kept; in so many steps a session is known
_MOVING = 3  # the last messages: older ones do not change any more
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
    """The last messages of one session, oldest first, and the prompt that they answer, however far back it lies.

    A read asks for the times of the last few, and for the contents of those that changed.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.messages: tuple[OpenCodeMessage, ...] = ()
        self.moved: tuple[OpenCodeMessage, ...] = ()  # those of them that the last read found changed
        self._sum: Row = {}
        self._parts: dict[str, tuple[tuple[int, int], MessagePart]] = {}
        self._heads: dict[str, tuple[int, int]] = {}

    def read(self, database: Database) -> bool:
        """Whether anything is another."""
        (now,) = database.rows(_SUM, self.session)
        if now == self._sum:
            return False
        before = {one.id for one in self.messages}
        heads = self._last(database, _MOVING)
        if not any(each["id"] in self._heads for each in heads):
            heads = self._last(database, _RECENT)
        parts = _in(database, f"select id, message_id, {_HEAD} from part where message_id in", heads)
        fresh = {str(row["id"]) for row in heads if self._heads.get(str(row["id"])) != _head(row)}
        new = {str(row["id"]) for row in parts if self._part_head(str(row["id"])) != _head(row)}
        oldest = min(((_count(row, "time_created"), str(row["id"])) for row in heads), default=(0, ""))
        ids = {str(row["id"]) for row in heads}
        kept = [one for one in self.messages if (one.created, one.id) < oldest or one.id in ids]
        self._read_parts(database, new)
        found = {one.id: one for one in (*kept, *_messages(database, fresh))}
        self._heads |= {str(row["id"]): _head(row) for row in heads}
        of: dict[str, list[MessagePart]] = {}
        for row in parts:
            of.setdefault(str(row["message_id"]), []).append(self._parts[str(row["id"])][1])
        for each in ids & found.keys():
            found[each] = replace(found[each], parts=tuple(sorted(of.get(each, ()), key=lambda part: part.id)))
        self.messages = self._with_prompt(database, sorted(found.values(), key=lambda one: (one.created, one.id)))
        self._forget()
        fresh |= {str(row["message_id"]) for row in parts if str(row["id"]) in new}
        self.moved = tuple(one for one in self.messages if one.id in fresh or one.id not in before)
        self._sum = now
        return True

    def _last(self, database: Database, most: int) -> list[Row]:
        question = (
            f"select id, {_HEAD} from message where session_id = ? order by time_created desc, id desc limit {most}"
        )
        return database.rows(question, self.session)

    def _part_head(self, part: str) -> tuple[int, int] | None:
        known = self._parts.get(part)
        return known[0] if known else None

    def _read_parts(self, database: Database, ids: set[str]) -> None:
        question = f"select id, {_HEAD}, data from part where id in"
        for row in _in(database, question, [{"id": each} for each in ids]):
            part = MessagePart(str(row["id"]), _data(row), _count(row, "time_created"), _count(row, "time_updated"))
            self._parts[part.id] = (_head(row), part)

    def _with_prompt(self, database: Database, found: list[OpenCodeMessage]) -> tuple[OpenCodeMessage, ...]:
        last, rest = found[-_RECENT:], found[:-_RECENT]
        if not last or any(one.role == "user" for one in last):
            return tuple(last)
        earlier = [one for one in rest if one.role == "user"][-1:]
        if not earlier:
            question = f"select id, {_HEAD}, data from message where session_id = ? and data like ?"
            order = " order by time_created desc, id desc limit 1"
            earlier = [_message(row) for row in database.rows(question + order, self.session, _USER)]
            parts = _in(
                database, f"select id, {_HEAD} from part where message_id in", [{"id": one.id} for one in earlier]
            )
            self._read_parts(database, {str(row["id"]) for row in parts})
            own = tuple(self._parts[str(row["id"])][1] for row in parts if str(row["id"]) in self._parts)
            earlier = [replace(one, parts=own) for one in earlier]
        return (*earlier, *last)

    def _forget(self) -> None:
        kept = {one.id for one in self.messages}
        parts = {part.id for one in self.messages for part in one.parts}
        self._heads = {each: head for each, head in self._heads.items() if each in kept}
        self._parts = {each: part for each, part in self._parts.items() if each in parts}


def sessions(database: Database, since: int) -> list[Row]:
    """Sessions of people, not of subagents, that moved since then (in milliseconds); the newest first."""
    known = database.columns("session")
    if not known >= NEEDED:
        raise Unreadable("opencode.db has no table of sessions as we know it")
    names = ", ".join(name for name in _WANTED if name in known)
    question = f"select {names} from session where time_updated >= ? order by time_updated desc limit {_MOST}"
    return [row for row in database.rows(question, since) if not row.get("parent_id") and not row.get("time_archived")]


def updated(row: Row, known: Sequence[OpenCodeMessage]) -> int:
    """When anything of a session changed last, in milliseconds."""
    parts = (part.updated for one in known[-1:] for part in one.parts)
    return max([_count(row, "time_updated"), *(one.updated for one in known), *parts])


_HEAD = "time_created, time_updated, length(data) as size"
# All that may change of the last messages and their parts, in one short answer.
_SUM = f"""
  select count(distinct m.id) as messages, max(m.time_created) as newest, max(m.time_updated) as moved,
    total(length(m.data)) as size, count(p.id) as parts, max(p.time_updated) as part_moved, total(length(p.data)) as part_size
  from message m left join part p on p.message_id = m.id
  where m.id in (select id from message where session_id = ? order by time_created desc, id desc limit {_MOVING})
"""
_USER = '%"role":"user"%'


def _head(row: Row) -> tuple[int, int]:
    """Another one when the row changed, also twice within one millisecond."""
    return _count(row, "time_updated"), _count(row, "size")


def _count(row: Row, name: str) -> int:
    return fields.number(row.get(name)) or 0


def _in(database: Database, question: str, rows: Sequence[Row]) -> list[Row]:
    ids = [str(row["id"]) for row in rows]
    found: list[Row] = []
    for at in range(0, len(ids), _AT_ONCE):
        some = ids[at : at + _AT_ONCE]
        found += database.rows(f"{question} ({placeholders(some)})", *some)
    return found


def _messages(database: Database, ids: set[str]) -> list[OpenCodeMessage]:
    question = f"select id, {_HEAD}, data from message where id in"
    return [_message(row) for row in _in(database, question, [{"id": each} for each in ids])]


def _message(row: Row) -> OpenCodeMessage:
    return OpenCodeMessage(str(row["id"]), _data(row), _count(row, "time_created"), _count(row, "time_updated"))


def _data(row: Row) -> dict[str, Any]:
    return fields.record(row["data"]) or {} if isinstance(row["data"], (str, bytes)) else {}
