"""What a hook costs the agent, against a shell that does nothing: at most 5 ms, and a few times the bare shell."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.common import Row, ratio
from imi_monitor.actions.hooks import agent_hooks

_ROUNDS = 201


def run() -> Iterator[Row]:
    for size, name in ((2_000, "2 KB"), (300_000, "300 KB")):
        with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
            yield from _measure(base, b'{"x": "' + b"x" * size + b'"}', name)


def _measure(base: str, payload: bytes, name: str) -> Iterator[Row]:
    """As an agent does it: the command of the settings in a shell, the event on stdin, wait."""
    os.environ["XDG_STATE_HOME"] = base
    agent_hooks.install_scripts()
    hook = partial(_shell, agent_hooks.hook_command("claude"), payload)
    nothing = partial(_shell, ":", payload)
    took, floor = _undisturbed(hook, nothing)
    yield ratio(f"hook of {name}", took, floor, "sh -c :", 8)
    yield Row(f"a hook of {name} costs the agent", took - floor, "ms", budget=5)
    shutil.rmtree(base, ignore_errors=True)
    os.makedirs(base, exist_ok=True)


def _undisturbed(*work: Callable[[], object]) -> list[float]:
    """The third best of many milliseconds each, in turns: four processes in a row wait for a busy machine, not for us."""
    times: list[list[float]] = [[] for _ in work]
    for _ in range(_ROUNDS):
        for index, act in enumerate(work):
            start = time.perf_counter()
            act()
            times[index].append((time.perf_counter() - start) * 1000)
    return [sorted(each)[2] for each in times]


def _shell(command: str, payload: bytes) -> None:
    """A process of its own that is given the payload and waited for."""
    ours, theirs = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, ours, 0), (os.POSIX_SPAWN_CLOSE, theirs)]
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ, file_actions=actions)
    os.close(ours)
    left = memoryview(payload)
    try:
        while left:
            left = left[os.write(theirs, left) :]
    except BrokenPipeError:
        pass  # the floor reads nothing
    os.close(theirs)
    os.waitpid(pid, 0)
