"""The embedded archive as a sink: every event, and the prompts of sessions, into `history.db` beside the registry."""

from __future__ import annotations

import asyncio
import sqlite3
from hashlib import sha256

from imi_monitor.model import history_words
from imi_monitor.model.text import safe
from imi_monitor.sinks.sink import Sink
from imi_monitor.store import event_batches, events, history_file
from imi_monitor.store.history_file import HistoryEntry, HistoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.config import Settings
    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.event_batches import OutgoingEvent, PromptRow

NAME = "history"
HOURS: int | None = None
EVENTS, PROMPTS = "events", "prompts"
PROMPT = "session.prompt"  # the type of an entry that is no event: what a person typed


def is_wanted(settings: Settings) -> bool:
    return settings.flag("history.enabled")


def make_sink(_: Settings, database: str) -> Sink:
    return HistorySink(database)


class HistorySink(Sink):
    """Writes from a thread: a merge of the index may take a second, and the dashboard must not wait for it."""

    name = NAME
    share = 0.2  # claims wait for the same disk
    faults = (HistoryError, OSError)

    def __init__(self, database: str) -> None:
        self._path = history_file.history_path(database)
        self.label = safe(self._path)
        self._connection: sqlite3.Connection | None = None
        self._registry = ""
        self._prompts = -1  # the last prompt that was looked at; -1: unknown

    async def open(self, registry: str) -> int:
        self._registry, self._prompts = registry, -1
        self._connection = await asyncio.to_thread(history_file.connect, self._path)
        return await asyncio.to_thread(history_file.position, self._connection, registry, EVENTS)

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        await asyncio.to_thread(self._append, [entry_of(one) for one in batch], EVENTS, batch[-1].event.seq)
        return {}

    async def deliver_more(self, registry: AsyncRegistry) -> None:
        """Archive new prompts."""
        assert self._connection is not None
        if self._prompts < 0:
            self._prompts = await asyncio.to_thread(history_file.position, self._connection, self._registry, PROMPTS)
        end = self._prompts + 1
        while self._prompts < end:
            found, end = await registry.read(event_batches.list_prompts, self._prompts, self.batch)
            upto = found[-1].seq if len(found) == self.batch else end
            if found:
                await asyncio.to_thread(
                    self._append, [_prompt_entry(one, self._registry) for one in found], PROMPTS, upto
                )
            self._prompts = upto

    async def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await asyncio.to_thread(connection.close)

    def fault_of(self, error: Exception) -> str:
        return str(error)

    def _append(self, entries: list[HistoryEntry], feed: str, upto: int) -> None:
        assert self._connection is not None
        try:
            history_file.append(self._connection, entries, self._registry, feed, upto)
        except sqlite3.Error as error:
            if isinstance(error, sqlite3.DataError | sqlite3.IntegrityError | sqlite3.InterfaceError):
                raise  # one of the entries is bad
            raise history_file.history_error(error, self._path) from error


def entry_of(one: OutgoingEvent) -> HistoryEntry:
    """An event as the archive stores it: with the texts of its session."""
    event, texts = one.event, one.texts
    said = (texts.title, texts.prompt, texts.outcome) if texts is not None else ()
    return HistoryEntry(
        event.id,
        one.registry,
        event.type,
        event.occurred_at,
        event.host,
        event.repo_name,
        event.worktree_name,
        event.agent_id,
        event.epoch,
        event.data.replace("\0", " "),
        history_words.of_event(events.to_model(event), said),
    )


def _prompt_entry(one: PromptRow, registry: str) -> HistoryEntry:
    from imi_monitor.fast import json_writer

    where = f" in {safe(one.worktree_name)}" if one.worktree_name else ""
    first = safe(one.text.partition("\n")[0], 300)
    return HistoryEntry(
        "p-" + sha256(f"{one.host}/{one.session}/{one.id}".encode("utf-8", "surrogatepass")).hexdigest()[:30],
        registry,
        PROMPT,
        one.at,
        one.host,
        one.repo_name,
        one.worktree_name,
        one.agent_id,
        None,
        json_writer.dumps({"session": one.session, "event": one.id}),
        f"{safe(one.agent_id)} was asked{where}: {first}\n{one.text}",
    )
