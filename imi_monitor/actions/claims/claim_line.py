"""Waiting in line for a worktree (`imi claim --wait`).

The registry's change counter is polled every few milliseconds, which costs microseconds. The line itself is read only
when the counter changed, and a few times per second because a death changes nothing in the registry. A signal only sets
a mark that the loop checks, so that it never interrupts a grant.

A registry that is replaced or cannot be used meanwhile does not end the waiting: the line of the next one is joined.
"""

from __future__ import annotations

import signal
import time

from imi_monitor import host
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.registry_outage import RegistryOutage
from imi_monitor.actions.signal_mark import SignalMark
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_queue, claim_requests, db
from imi_monitor.store.registry_identity import RegistryIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.context import Context
    from imi_monitor.store.claim_requests import ClaimAnswer, ClaimTarget
    from imi_monitor.store.claims import ClaimRequest

    FindTarget = Callable[[], ClaimTarget]

_POLL_SECONDS = 0.015
_READ_SECONDS = 0.25  # the longest time until a death is noticed


def wait_for_claim(
    context: Context, target: ClaimTarget, find_target: FindTarget, wanted: ClaimRequest, seconds: float
) -> ClaimAnswer:
    """Claim the worktree or wait in its line for `seconds`; leaves the line however this ends.

    `find_target` finds the target in a registry that replaces this one.
    """
    context.follow_registry()
    with SignalMark() as stop:  # before joining: a signal in between would leave the row behind
        line = _Line(context, target, find_target, wanted, host.uptime() + seconds)
        answer = line.join()
        if answer.granted:
            return answer
        try:
            return line.wait(stop)
        except BaseException:
            line.leave()
            raise


class _Line:
    """Our place in the line of one worktree."""

    def __init__(
        self, context: Context, target: ClaimTarget, find_target: FindTarget, wanted: ClaimRequest, until: float
    ) -> None:
        self._context = context
        self._target = target
        self._find_target = find_target
        self._wanted = wanted
        self._until = until
        self._outage = RegistryOutage(context)
        self._identity: RegistryIdentity | None = None
        self._seq = 0
        self._version: object = None  # of the registry when it was read last
        self._read_at = 0.0
        self._hurry = True  # read again without waiting for a change

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._context.connection

    @property
    def _key(self) -> tuple[str, str]:
        return self._target.repo_name or "", self._target.name

    def join(self) -> ClaimAnswer:
        """Claim the worktree if it is free, or take the last place of its line."""
        self._identity = RegistryIdentity(self._connection)
        answer = claim_requests.request_or_join(self._connection, self._target, self._wanted, self._until)
        self._seq = answer.seq
        return answer

    def wait(self, stop: SignalMark) -> ClaimAnswer:
        while not stop.signal and not self._context.cancelled():
            try:
                answer = self._find_answer(stop)
            except (RegistryError, *db.Error) as error:
                self._pause(error if isinstance(error, RegistryError) else self._sentence(error))
            else:
                self._outage.end()
                if answer is not None:
                    return answer
            time.sleep(min(_POLL_SECONDS, max(0.0, self._until - host.uptime())))
        raise self._stopped(stop)

    def _sentence(self, error: db.Failure) -> RegistryError:
        return db.registry_error(error, self._context.database)

    def _pause(self, error: RegistryError) -> None:
        if host.uptime() >= self._until:
            raise error
        self._outage.wait(error)

    def _find_answer(self, stop: SignalMark) -> ClaimAnswer | None:
        """The answer if there is one: a grant, or the last refusal."""
        now = host.uptime()
        connection = self._connection
        version = db.data_version(connection)
        if version != self._version and RegistryIdentity(connection) != self._identity:
            self._target = self._find_target()
            answer = self.join()
            return answer if answer.granted else None
        if now >= self._until:
            return self._try()
        if version != self._version or self._hurry or now - self._read_at >= _READ_SECONDS:
            seen = claim_requests.preview(connection, *self._key, self._wanted, self._seq)
            if seen.grantable:
                answer = self._try()
                if answer.granted:
                    return self._release(answer, stop) if stop.signal else answer
            ownership.recover_reservation(self._context, seen.claim)
            self._version, self._read_at = version, now
            self._hurry = seen.free  # another waiter is about to claim, or dies before it does
            self._show_progress(seen.claim.agent_id)
        return None

    def leave(self) -> None:
        try:
            db.transact(self._connection, claim_queue.leave, self._seq)
        except RegistryError:
            return  # the row names this process: once it is gone, all others skip the row

    def _try(self) -> ClaimAnswer:
        answer = claim_requests.request_from_line(self._connection, self._target, self._wanted, self._seq, self._until)
        self._seq = answer.seq
        return answer

    def _release(self, answer: ClaimAnswer, stop: SignalMark) -> ClaimAnswer:
        """Release a claim that was granted at the moment the caller gave up, because no process uses it."""
        claim = answer.claim
        db.transact_unsynced(self._connection, claim_requests.release, *self._key, self._wanted.agent, claim.epoch)
        raise self._stopped(stop)

    def _stopped(self, stop: SignalMark) -> BaseException:
        if stop.signal == signal.SIGINT:
            return KeyboardInterrupt()
        if stop.signal:
            return SystemExit(128 + stop.signal)
        return Refused(f"gave up waiting for {safe(self._target.name)}", code="cancelled")

    def _show_progress(self, holder: str | None) -> None:
        place = claim_queue.position(self._connection, *self._key, self._seq)
        state = f"held by {safe(holder)}" if holder else "unclaimed: the first in line gets it"
        self._context.progress(f"{_ordinal(place)} in line for {safe(self._target.name)}, {state}")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
