"""What tmux and Zellij have in common: a pane, and how their programs are run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imi_monitor import programs
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_TIMEOUT = 10.0
_MOST_OUTPUT = 1 << 20


@dataclass(frozen=True, slots=True)
class Pane:
    """One terminal pane of a multiplexer."""

    kind: str  # tmux, zellij
    name: str  # %3; session:3
    title: str
    pid: int | None = None  # of the program tmux started in it
    tty: str | None = None
    pids: frozenset[int] = frozenset()  # agents whose environment names this pane (Zellij)


def run_multiplexer(name: str, *args: str, env: Mapping[str, str] | None = None, timeout: float = _TIMEOUT) -> str:
    """Return the program's output; raise Refused with its error text when it fails, is missing or takes too long."""
    path = None if env is None else env.get("PATH")
    program = programs.find(name, path)
    if program is None:
        raise Refused(f"{name} {programs.why_missing(name, path)}", code="no-multiplexer")
    try:
        done = subprocess.run(
            [program, *args],
            capture_output=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
            env=programs.environment(env),
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{name} does not answer: {safe(str(error), 200)}") from error
    if done.returncode:
        problem = done.stderr.decode("utf-8", "replace").strip() or str(done.returncode)
        raise Refused(f"{name} failed: {safe(problem, 200)}")
    return done.stdout[:_MOST_OUTPUT].decode("utf-8", "replace")


def query_multiplexer(argv: Sequence[str], env: Mapping[str, str], timeout: float) -> str | None:
    """Return the program's output, or None when it is missing, fails or takes longer than `timeout` seconds."""
    try:
        return run_multiplexer(*argv, env=env, timeout=timeout)
    except Refused:
        return None


def without_sign(name: str) -> str:
    """Return the name of a tab or window without the sign of a state in front of it: one character and a blank."""
    return name[2:] if name[1:2] == " " and name[2:] and not name[0].isalnum() else name
