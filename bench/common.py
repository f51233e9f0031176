"""What benchmarks share: a result row, medians over interleaved rounds, and a place to work in."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

PYTHON = sys.executable
IMI = os.path.join(os.path.dirname(sys.executable), "imi")


@dataclass(frozen=True)
class Row:
    """One measured figure. `ratio` is value / floor; `budget` is what the ratio (or the value) may be at most.

    A budget with `at_least` is a floor instead: the value must not be below it.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_name: str = ""
    ratio: float | None = None
    budget: float | None = None
    at_least: bool = False

    @property
    def kept(self) -> bool | None:
        """Whether the budget is kept; None when there is none."""
        if self.budget is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured >= self.budget if self.at_least else measured <= self.budget


def ratio(name: str, value: float, floor: float, floor_name: str, budget: float | None = None, unit: str = "ms") -> Row:
    return Row(name, value, unit, floor, floor_name, value / floor, budget)


def interleaved(rounds: int, *work: Callable[[], object]) -> list[float]:
    """The median milliseconds of each piece of work, taken in turns so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in work]
    for _ in range(rounds):
        for index, act in enumerate(work):
            start = time.perf_counter()
            act()
            times[index].append((time.perf_counter() - start) * 1000)
    return [statistics.median(each) for each in times]


def process(argv: Sequence[str], env: dict[str, str] | None = None, cwd: str | None = None) -> None:
    """Run a process and throw its output away; a failure is an error, a benchmark of failures would be worthless."""
    done = subprocess.run(argv, capture_output=True, env=env, cwd=cwd, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.returncode} {done.stderr.decode(errors='replace')}")


@contextmanager
def own_environment() -> Iterator[None]:
    """What is set in `os.environ` inside is as before afterwards: the next benchmark must not work in this one's registry."""
    before = dict(os.environ)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed imi has compiled modules
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def wait_until(happened: Callable[[], bool], by: subprocess.Popen[bytes], pause: float, seconds: float = 60.0) -> None:
    """Wait for what the process `by` is about to do; it is an error if it ends, or takes `seconds`, without doing it."""
    end = time.monotonic() + seconds
    while not happened():
        status = by.poll()
        if (status is not None and not happened()) or time.monotonic() > end:
            state = "still runs" if status is None else f"exited with {status}"
            raise RuntimeError(f"{by.args!r} {state}, and what it was started for did not happen")
        time.sleep(pause)
