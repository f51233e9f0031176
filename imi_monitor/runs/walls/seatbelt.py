"""Seatbelt, the sandbox of macOS. It was never run on a Mac: the row of such a run says "untested"."""

from __future__ import annotations

import os
import subprocess

from imi_monitor import paths
from imi_monitor.runs import walls
from imi_monitor.runs.walls import agent_state, config_placeholder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.runs.walls import Enclosure

_PROGRAM = "/usr/bin/sandbox-exec"
_TRIAL_SECONDS = 10


def works() -> bool:
    """Whether a profile can be applied, known by a trial."""
    try:
        trial = [_PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true"]
        return subprocess.run(trial, capture_output=True, timeout=_TRIAL_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def command(enclosure: Enclosure, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The command line of the agent inside of the sandbox."""
    return [_PROGRAM, "-p", profile(enclosure, env), *argv]


def profile(enclosure: Enclosure, env: Mapping[str, str]) -> str:
    """Writes are refused but for what the enclosure allows; `strict` refuses to read the home folder as well."""
    home = os.path.realpath(env.get("HOME") or paths.home())
    state = agent_state.places(enclosure.agent, env, home)
    kept, seen = [real for _, real in state.kept], [real for _, real in state.folders]
    writable = [enclosure.workspace, *enclosure.writable, *kept, *state.copies, "/private/tmp", "/dev"]
    fixed = []
    if enclosure.git is not None:
        git = enclosure.git
        writable += [*(os.path.join(git.common_dir, name) for name in ("objects", "refs", "logs")), git.admin_dir]
        fixed += [os.path.join(git.admin_dir, name) for name in ("commondir", "gitdir", config_placeholder.NAME)]
        fixed.append(os.path.join(enclosure.workspace, ".git"))
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += [f"(allow file-write* (subpath {_quoted(path)}))" for path in writable]
    lines += [f"(deny file-write* (subpath {_quoted(path)}))" for path in fixed]
    if enclosure.level == walls.STRICT:
        shown = [enclosure.workspace, *enclosure.writable, *enclosure.readable, *seen, *state.copies]
        lines += [f"(deny file-read* (subpath {_quoted(home)}))"]
        lines += [
            f"(allow file-read* (subpath {_quoted(path)}))" for path in (*shown, os.path.dirname(enclosure.program))
        ]
    return "\n".join(lines)


def _quoted(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
