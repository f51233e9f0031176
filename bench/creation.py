"""Making a worktree by `imi feat` against what it cannot do without: `git worktree add` and the start of a process. # S2.52"""

from __future__ import annotations

import os
import subprocess
import tempfile
from itertools import count

from bench.common import IMI, PYTHON, Row, interleaved, process, ratio

# A budget only where the checkout is some work: of a handful of files even git needs no more than Python to start.
_SIZES = ((200, None, 12), (1000, 1.3, 12), (5000, 1.3, 6))


def run() -> list[Row]:
    """The ratio by the size of the repository, without a remote and with one that has nothing new."""
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
        return [row for size, budget, rounds in _SIZES for row in _measure(folder, size, budget, rounds)]


def _measure(folder: str, files: int, budget: float | None, rounds: int) -> list[Row]:
    env = environment(folder)
    alone = _repository(os.path.join(folder, f"alone-{files}"), files, env)
    cloned = os.path.join(folder, f"cloned-{files}")
    process(["git", "clone", "-q", alone, cloned], env)
    numbers = count()

    def start() -> None:
        process([PYTHON, "-I", "-c", "pass"], env)

    def bare() -> None:
        number = next(numbers)
        path = os.path.join(folder, f"bare-{files}", f"w{number}")
        process(["git", "worktree", "add", "-b", f"bare/{number}", path, "HEAD"], env, alone)

    def ours() -> None:
        process([IMI, "feat", f"n{next(numbers)}"], env, alone)

    def ours_with_remote() -> None:
        process([IMI, "feat", f"n{next(numbers)}"], env, cloned)

    ours()  # the registry is made once
    start_ms, bare_ms, ours_ms, remote_ms = interleaved(rounds, start, bare, ours, ours_with_remote)
    floor, name = start_ms + bare_ms, "git worktree add + python -I -c pass"
    return [
        ratio(f"create, {files} files", ours_ms, floor, name, budget),
        ratio(f"create, {files} files, local remote asked", remote_ms, floor, name, budget),
    ]


def environment(folder: str) -> dict[str, str]:
    home = os.path.join(folder, "home")
    os.makedirs(home, exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "XDG_", "IMI_"))}
    name = {
        "GIT_AUTHOR_NAME": "b",
        "GIT_AUTHOR_EMAIL": "b@x.invalid",
        "GIT_COMMITTER_NAME": "b",
        "GIT_COMMITTER_EMAIL": "b@x.invalid",
    }
    return {**env, **name, "HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}


def _repository(path: str, files: int, env: dict[str, str]) -> str:
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True, env=env)
    for number in range(files):
        where = os.path.join(path, f"d{number // 20}")
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, f"f{number}.py"), "w", encoding="ascii") as file:
            file.write(f"line {number}\n" * 200)
    process(["git", "add", "-A"], env, path)
    process(["git", "commit", "-q", "-m", "all"], env, path)
    return path
