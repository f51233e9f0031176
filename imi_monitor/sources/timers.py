"""Timers that wake up rarely: waking up is what idling costs, so pauses of seconds end at the same moments for all."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

from imi_monitor import host


def aligned_deadline(now: float, pause: float) -> float:
    """Return when a pause ends: at the last whole second of the loop's clock in it, if it is a second or longer."""
    return float(math.floor(now + pause)) if pause >= 1.0 else now + pause


async def sleep_aligned(pause: float) -> None:
    """Sleep for `pause` seconds, or a little less."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(aligned_deadline(now, pause) - now)


class PollTimer:
    """Decides when a source reads again: when it is woken, else after a pause that grows with each failure."""

    def __init__(self, interval: float, *, longest: float = 60.0) -> None:
        self._interval = interval
        self._longest = longest
        self._pause = interval
        self._woken = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """End the present pause, or the next one if there is none."""
        self._woken = True
        self._end_wait()

    def retry_soon(self, pause: float) -> None:
        """Use this pause next, then twice as long each time, up to the interval."""
        shorter = self._pause < self._interval
        self._pause = min(self._interval, max(pause, self._pause * 2 if shorter else pause))

    def slow_down(self, pause: float) -> None:
        """Use a pause longer than the interval."""
        self._pause = max(self._interval, pause)

    def succeeded(self) -> None:
        self._pause = self._interval

    def failed(self) -> None:
        # jitter, so that sources that failed together do not retry together
        self._pause = min(self._longest, self._pause * 2) * random.uniform(0.8, 1.2)

    async def wait(self, is_due: Callable[[], object] | None = None) -> bool:
        """Wait for the end of the pause; True if `wake` ended it.

        `is_due` is called at the end of each pause and has to be cheap: if it returns False, another pause follows.
        """
        if not self._woken:
            await self._sleep(is_due)
        woken, self._woken = self._woken, False
        return woken

    async def _sleep(self, is_due: Callable[[], object] | None) -> None:
        # a future instead of `asyncio.wait_for` or `asyncio.timeout`: the one loses a cancellation that comes together
        # with the result, the other cancels the task at each end of a pause
        self._waiting = asyncio.get_running_loop().create_future()
        self._start_pause(is_due)
        try:
            await self._waiting
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._waiting = None

    def _start_pause(self, is_due: Callable[[], object] | None) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(aligned_deadline(loop.time(), self._pause), self._end_pause, is_due)

    def _end_pause(self, is_due: Callable[[], object] | None) -> None:
        if is_due is None:
            self._end_wait()
            return
        self._start_pause(is_due)
        if is_due():
            self._end_wait()

    def _end_wait(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


_STALL_INTERVAL = 5.0
_STALL_TOLERANCE = 3.0


class StallDetector:
    """Notices that the process was stopped (SIGSTOP, suspend) for so long that file events may have been dropped.

    A slow tick on the clock that also counts suspended time: seconds of delay mean that the process did not run.
    """

    def __init__(self, clock: Callable[[], float] = host.uptime, interval: float = _STALL_INTERVAL) -> None:
        self._clock = clock
        self._interval = interval
        self._handle: asyncio.TimerHandle | None = None
        self._expected = 0.0
        self._report: Callable[[str], None] | None = None

    def start(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._start_interval()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def check(self) -> None:
        """Report a stall now; called before events are delivered, so that the loss is reported first."""
        late = self._clock() - self._expected
        if late > _STALL_TOLERANCE and self._report is not None:
            self._expected = self._clock() + self._interval
            self._report(f"imi was paused for {late:.0f} s")

    def _start_interval(self) -> None:
        self._expected = self._clock() + self._interval
        loop = asyncio.get_running_loop()
        self._handle = loop.call_at(aligned_deadline(loop.time(), self._interval), self._tick)

    def _tick(self) -> None:
        self.check()
        self._start_interval()
