"""Codex terminals without a recorded thread: at the first prompt, or in a dialog at their start.

A terminal locks its thread when it shows its prompt, and records it at the first prompt. Before, it may ask whether the
folder is trusted, or whether a new model or a hook may be used. With the shared daemon the locks are the daemon's, and show
neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Set

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.codex.session import index_rows, newest_database
from imi_monitor.sources.agents.codex.thread_log import ThreadLog
from imi_monitor.sources.agents.codex.thread_owners import ThreadLocks, is_resumed

_STARTUP = 5.0  # seconds in which a terminal comes to its prompt
_HEADLESS = frozenset({"exec", "e", "review", "apply", "sandbox", "debug", "features", "cloud"})


class UnpromptedTerminals:
    """What the terminals do of which no thread is known."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._log = ThreadLog(home)
        self._recorded: dict[str, bool] = {}  # locked thread -> whether it is recorded anywhere

    def find(
        self, context: ReadContext, locks: ThreadLocks, threads: Set[str], taken: Set[int | None], daemon: bool
    ) -> Iterator[Sighting]:
        """`threads`: those with a rollout. `taken`: processes that have one of them. `daemon`: there is a shared one."""
        if not locks.readable:
            return
        self._recorded = {name: known for name, known in self._recorded.items() if name in locks.threads}
        held = {one.pid: name for name, one in locks.threads.items() if one.pid is not None}
        for one in context.processes_of("codex"):
            if one.pid in taken or not context.is_watched(one.cwd) or not _HEADLESS.isdisjoint(one.argv[1:]):
                continue
            if "--remote" in one.argv:
                yield from _of_remote_screen(one, {*threads, *locks.threads})
                continue
            thread = next((held[pid] for pid in (one.pid, *one.family) if pid in held), None)
            found = self._evidence(one, thread, threads, context, daemon)
            if found is not None:
                yield Sighting("codex", thread, one.cwd, one.pid, one.started, True, evidence=(found,))

    def _evidence(
        self, one: AgentProcess, thread: str | None, threads: Set[str], context: ReadContext, daemon: bool
    ) -> Evidence | None:
        began = fields.at(one.began_at)
        if thread is not None:
            if thread in threads or is_resumed(one.argv) or self._is_recorded(thread):
                return None
            says = f"process {one.pid} holds thread-writer-locks/{thread}.lock, and nothing of the thread is recorded"
            return Evidence("transcript", COMPLETED, began, says, NOTHING_ASKED, or_else=frozenset({WAITING}))
        if (
            daemon
            or context.now - one.began_at < _STARTUP
            or self._log.has_thread_of(one.pid, one.began_at) is not False
        ):
            return None
        says = f"process {one.pid} runs, and has begun no thread: it may show a dialog"
        detail = "a dialog at its start (trust, model, hooks)"
        return Evidence("process", WAITING, began, says, detail, standing=True)

    def _is_recorded(self, thread: str) -> bool:
        """Return whether Codex has recorded the thread; True also while the index of threads cannot be read."""
        if thread not in self._recorded:
            readable = newest_database(self._home, "state") is not None
            rows = index_rows(self._home, 1e12, [thread])
            self._recorded[thread] = not readable or any(row.path and os.path.exists(row.path) for row in rows)
        return self._recorded[thread]


def _of_remote_screen(one: AgentProcess, threads: Set[str]) -> Iterator[Sighting]:
    """The screen of a thread in the server of another process: its command line names it."""
    thread = next((word for word in one.argv if word in threads), None)
    if thread is not None:
        yield Sighting("codex", thread, one.cwd, one.pid, one.started, True)
