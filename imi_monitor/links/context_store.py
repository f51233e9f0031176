"""The contexts of terminals on the team's Redis: `session:ID` and its milestones for 7 days, `intent:ID` for 24 hours.

A key that another program made as another type is never overwritten: the context is not sent then, and that is said.
Also reads what zellij-driver and Jelmore keep there, by SCAN, without a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

SESSION_SECONDS, INTENT_SECONDS = 7 * 86400, 24 * 3600
_MARK_SECONDS = 30 * 86400
_MOST_KEYS, _MOST_TEXT, _MOST_MILESTONES = 300, 1000, 100
_CHECK = "local found = redis.call('TYPE', KEYS[1]).ok if found ~= 'none' and found ~= '{}' then return found end "
_PUT_HASH = _CHECK.format("hash") + (
    "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], unpack(ARGV, 2)) redis.call('EXPIRE', KEYS[1], ARGV[1])"
    " return ''"
)
_PUT_LIST = _CHECK.format("list") + (
    "redis.call('DEL', KEYS[1]) for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end"
    " redis.call('EXPIRE', KEYS[1], ARGV[1]) return ''"
)
_PUT_TEXT = _CHECK.format("string") + (
    "if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1]) end return ''"
)
# pattern -> what its keys are; `*` of the pattern is the name that is shown
PATTERNS = (
    ("session:*", "imi"),
    ("znav:pane:*", "zellij-driver pane"),
    ("perth:pane:*:history", "zellij-driver intents"),
    ("perth:tab:*", "zellij-driver tab"),
    ("perth:snapshots:*", "zellij-driver snapshot"),
    ("jelmore:session:*", "Jelmore session"),
    ("sessions:*", "Jelmore session"),
)


@dataclass(frozen=True, slots=True)
class SharedContext:
    """What a terminal shares: `milestones` and `panes` are JSON."""

    id: str
    fields: Mapping[str, str]
    milestones: tuple[str, ...]
    intent: str
    intent_seconds: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One key of the server as it is shown: whose it is, its name, what it says, and its remaining seconds (None: no end)."""

    kind: str
    name: str
    text: str
    seconds: int | None


class ContextStore:
    def __init__(self, link: RedisLink, prefix: str) -> None:
        self._link, self._prefix = link, prefix

    async def put(self, context: SharedContext) -> str | None:
        """Write the three keys, the session last; returns a sentence if a key of another program is in the way."""
        session, intent = f"{self._prefix}session:{context.id}", f"{self._prefix}intent:{context.id}"
        fields = [word for pair in context.fields.items() for word in pair if pair[1]]
        writes: list[tuple[str, str, Sequence[str | int]]] = [
            (_PUT_LIST, f"{session}:milestones", [SESSION_SECONDS, *context.milestones[-_MOST_MILESTONES:]]),
            (_PUT_TEXT, intent, [max(1, context.intent_seconds), context.intent]),
            (_PUT_HASH, session, [SESSION_SECONDS, *fields]),
        ]
        for script, key, words in writes:
            found = await self._link.script(script, [key], words)
            if found:
                return f"{safe(key, 100)} is a {safe(str(found), 20)} of another program: it stays as it is"
        return None

    async def has_mark(self, key: str) -> bool:
        """Whether the server still has what was sent."""
        return await self._link.value(key) is not None

    async def set_mark(self, key: str) -> None:
        await self._link.script(_PUT_TEXT, [key], [_MARK_SECONDS, "1"])

    async def list_entries(self) -> list[StoredEntry]:
        """Return what all programs keep about terminals and sessions there, as far as it is known how to read it."""
        found: list[StoredEntry] = []
        for pattern, kind in PATTERNS:
            wanted = f"{self._prefix}{pattern}" if kind == "imi" else pattern
            for key in sorted(await self._link.scan(wanted, _MOST_KEYS)):
                entry = await self._read(key, kind)
                if entry is not None:
                    found.append(entry)
        return found

    async def _read(self, key: str, kind: str) -> StoredEntry | None:
        type_ = await self._link.type_of(key)
        if type_ == "hash":
            fields = await self._link.hash_fields(key)
            text = _hash_text(fields)
        elif type_ == "list" and not key.endswith(":milestones"):
            text = "; ".join(_entry_text(one) for one in await self._link.list_items(key, 3))
        elif type_ == "string":
            text = _entry_text(await self._link.value(key) or "")
        else:
            return None
        left = await self._link.seconds_left(key)
        return StoredEntry(kind, safe(key, 120), safe(redact(text), 300), left)


def _hash_text(fields: Mapping[str, str]) -> str:
    """The telling fields of a hash: an intent first, then the place."""
    words = [fields[name] for name in ("intent", "last_intent") if fields.get(name)]
    places = [
        f"{name} {fields[name]}"
        for name in ("host", "session", "tab", "name", "folder", "correlation_id")
        if fields.get(name)
    ]
    stale = ["stale"] if fields.get("stale") == "true" else []
    return ", ".join([*words, *places, *stale])[:_MOST_TEXT]


def _entry_text(text: str) -> str:
    """A JSON entry of zellij-driver or Jelmore in words: its summary, name or prompt, and its status."""
    try:
        row = json.loads(text[: 1 << 16])
    except (ValueError, RecursionError):
        return ""
    if not isinstance(row, dict):
        return ""
    names = (
        "entry_type",
        "summary",
        "name",
        "description",
        "status",
        "provider",
        "query",
        "last_prompt",
        "current_directory",
    )
    words = [str(row[name]) for name in names if isinstance(row.get(name), str) and row[name]]
    if isinstance(row.get("pane_count"), int):
        words.append(f"{row['pane_count']} panes")
    return ", ".join(words)[:_MOST_TEXT]
