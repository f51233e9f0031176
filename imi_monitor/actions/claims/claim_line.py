"""Standing in line for a worktree (`imi claim --wait`): cheap while nothing happens, at once when it is our turn.

A look at the registry's change counter costs microseconds, so it is asked every few milliseconds; only when it moved,
and a few times a second in case somebody died without a word, the line itself is read. Signals only set a mark that the
loop looks at: no wait ends in the middle of a grant.
"""

from __future__ import annotations

import os
import signal
import time

from imi_monitor import host
from imi_monitor.actions.claims.claim_action import refuse_missing, settle, take_now
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_queue, claim_requests, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from types import FrameType

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_requests import ClaimAnswer
    from imi_monitor.store.claims import ClaimRequest

_POLL_SECONDS = 0.015
_LOOK_SECONDS = 0.25  # how soon a death that no commit tells of is noticed
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stop:
    """Remembers the signal that asked us to stop, instead of breaking off whatever is going on."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Stop:
        for number in _SIGNALS:
            try:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread: whoever runs us there has `cancelled`
                break
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = number


class _Line:
    """Our place in one line."""

    def __init__(self, context: Context, found: Target, wish: ClaimRequest, seconds: float) -> None:
        self.context = context
        self.connection = context.connection
        self.found = found
        self.wish = wish
        self.until = host.uptime() + seconds
        self.key = ("", found.name)
        self.seq = 0


def ask(context: Context, found: Target, wish: ClaimRequest, seconds: float) -> ClaimAnswer:
    """Take it, or stand in line in the same transaction and wait; leaves the line whichever way that ends."""
    with _Stop() as stop:  # before we stand in line: a signal in between would leave us there
        line = _Line(context, found, wish, seconds)
        answer = claim_requests.commit_claim(line.connection, line.wish, _take_or_join, line)
        if answer.granted:
            return answer
        try:
            return _wait(line, stop)
        except BaseException:
            _leave(line)
            raise


def _take_or_join(connection: sqlite3.Connection, line: _Line) -> ClaimAnswer:
    answer = take_now(connection, line.context, line.found, line.wish)
    line.key = (answer.claim.repo_name, answer.claim.worktree_name)
    if not answer.granted:
        line.seq = _join(connection, line)
    return answer


def _wait(line: _Line, stop: _Stop) -> ClaimAnswer:
    version, looked, hurry = -1, 0.0, True
    while not stop.signal and not line.context.cancelled():
        now = host.uptime()
        if now >= line.until:
            return claim_requests.commit_claim(line.connection, line.wish, _last_try, line)
        seen = claim_queue.change_counter(line.connection)
        if seen != version or hurry or now - looked >= _LOOK_SECONDS:
            version, looked = seen, now
            look = claim_requests.preview(line.connection, *line.key, line.wish, line.seq)
            if look.ours:
                answer = claim_requests.commit_claim(line.connection, line.wish, _try, line)
                if answer.granted:
                    return _given_back(line, answer, stop) if stop.signal else answer
            settle(line.context, look.claim)
            hurry = look.free  # somebody is about to take it, or to die before he does
            _tell(line, look.claim.agent_id)
        time.sleep(min(_POLL_SECONDS, max(0.0, line.until - host.uptime())))
    raise _stopped(line, stop)


def _try(connection: sqlite3.Connection, line: _Line) -> ClaimAnswer:
    """Take it if it is our turn; back to the line if somebody struck us out, as one who was thought gone."""
    refuse_missing(line.found)
    answer = claim_requests.claim(connection, *line.key, line.wish, seq=line.seq)
    if not answer.granted and not claim_queue.is_waiting(connection, line.seq):
        line.seq = _join(connection, line)
    return answer


def _last_try(connection: sqlite3.Connection, line: _Line) -> ClaimAnswer:
    refuse_missing(line.found)
    answer = claim_requests.claim(connection, *line.key, line.wish, seq=line.seq)
    claim_queue.leave(connection, line.seq)
    return answer


def _join(connection: sqlite3.Connection, line: _Line) -> int:
    left = line.until - host.uptime()
    me = host.identify_process(os.getpid())
    return claim_queue.join(connection, *line.key, line.wish.agent, me, task=line.wish.task, seconds=left)


def _given_back(line: _Line, answer: ClaimAnswer, stop: _Stop) -> ClaimAnswer:
    """Granted in the moment in which the caller gave up: nobody is there to use it."""
    db.transact_unsynced(line.connection, claim_requests.release, *line.key, line.wish.agent, answer.claim.epoch)
    raise _stopped(line, stop)


def _leave(line: _Line) -> None:
    try:
        db.transact(line.connection, claim_queue.leave, line.seq)
    except RegistryError:
        return  # the row names this process: once it is gone, everybody skips it


def _stopped(line: _Line, stop: _Stop) -> BaseException:
    if stop.signal == signal.SIGINT:
        return KeyboardInterrupt()
    if stop.signal:
        return SystemExit(128 + stop.signal)
    return Refused(f"gave up waiting for {safe(line.found.name)}", code="cancelled")


def _tell(line: _Line, holder: str | None) -> None:
    place = claim_queue.position(line.connection, *line.key, line.seq)
    who = f"held by {safe(holder)}" if holder else "free for who is first"
    line.context.progress(f"{_ordinal(place)} in line for {safe(line.found.name)}, {who}")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
