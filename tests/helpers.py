"""Tools for tests: real repositories, the real `imi` command, and a fingerprint of a directory tree."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.model import times
from tests import fork_server
from tests.limits import LIMIT

ROOT = Path(__file__).resolve().parent.parent


def git(*args: str | Path, cwd: Path, check: bool = True, env: dict[str, str] | None = None) -> str:
    """Plain git, as a user would run it."""
    done = subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env={**os.environ, **(env or {})},
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(map(str, args))} in {cwd}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Repo:
    """A real repository; `path` is its main work tree."""

    path: Path

    @classmethod
    def create(cls, path: Path, branch: str = "main") -> Repo:
        """Three files and two commits on `branch`, copied from a template that is made once."""
        _copy_repository(_template(branch), path)
        return cls(path)

    @classmethod
    def create_with_origin(cls, path: Path, origin: Path, branch: str = "main") -> Repo:
        """The same with a bare `origin` that has everything, and an upstream."""
        template = _template(branch)
        made = cls.create(path, branch)
        _copy_repository(template.with_name("origin.git"), origin)
        made.git("remote", "add", "origin", str(origin))
        for name, content in (
            (f"refs/remotes/origin/{branch}", made.git("rev-parse", "HEAD")),
            ("refs/remotes/origin/HEAD", f"ref: refs/remotes/origin/{branch}"),
        ):
            ref = path / ".git" / name
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(content + "\n")
        with (path / ".git" / "config").open("a") as config:
            config.write(f'[branch "{branch}"]\n\tremote = origin\n\tmerge = refs/heads/{branch}\n')
        return made

    def git(self, *args: str | Path, check: bool = True) -> str:
        return git(*args, cwd=self.path, check=check)

    def write(self, name: str, text: str) -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def worktree(self, name: str, branch: str | None = None) -> Repo:
        """A worktree beside the repository, made by plain git."""
        path = self.path.parent / name
        self.git("worktree", "add", "-q", "-b", branch or name.replace("-", "/", 1), str(path))
        return Repo(path)


@cache
def _template(branch: str) -> Path:
    """A repository as `Repo.create` gives it, and beside it a bare `origin.git` of it; one for each test process."""
    path = Path(tempfile.mkdtemp(prefix="imi-template-")) / "app"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    path.mkdir()
    git("init", "-q", "-b", branch, cwd=path)
    for sample in (path / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    made = Repo(path)
    made.write("README.md", "hello\n")
    made.write("src/api.py", "def api():\n    return 1\n")
    made.write(".gitignore", "build/\n.env\nnode_modules/\n*.sqlite\n")
    made.commit("first")
    made.write("src/db.py", "def db():\n    return 2\n")
    made.commit("second")
    git("clone", "-q", "--bare", "--template=", str(path), str(path.with_name("origin.git")), cwd=path)
    git("remote", "remove", "origin", cwd=path.with_name("origin.git"))
    return path


def _copy_repository(template: Path, path: Path) -> None:
    shutil.copytree(template, path, symlinks=True, dirs_exist_ok=True)
    if (path / ".git").exists():
        git("update-index", "-q", "--refresh", cwd=path)  # the copies have other inodes than the index says


@dataclass(frozen=True)
class Ran:
    """What one run of `imi` gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def data(self) -> Any:
        envelope = self.json
        assert envelope["success"], envelope
        return envelope["data"]


def imi_argv(*args: str) -> list[str]:
    return [sys.executable, "-m", "imi_monitor", *args]


def imi(
    *args: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, stdin: str = "", timeout: float = 60
) -> Ran:
    """The real command in a process of its own. A traceback is always a failure, whatever the test checks.

    The process is forked from one that has the modules loaded, unless `env` changes what Python reads at its start.
    """
    words, environment = [*map(str, args)], {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    if fork_server.usable(env or {}):
        done = fork_server.run(words, cwd=cwd, env=environment, stdin=stdin, timeout=timeout)
    else:
        done = subprocess.run(
            imi_argv(*words),
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            check=False,
            env=environment,
        )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def tree_hash(root: Path, skip: Sequence[str] = ()) -> dict[str, str]:
    """Every entry below `root` with its kind, mode and content: two equal results mean byte-identical trees."""
    found: dict[str, str] = {}
    for folder, names, files in os.walk(os.fsencode(root)):
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            if relative in skip:
                continue
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                found[relative] = f"link {os.fsdecode(os.readlink(path))}"
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    found[relative] = f"{stat.S_IMODE(info.st_mode):o} {hashlib.sha256(file.read()).hexdigest()}"
            else:
                found[relative] = f"{stat.S_IFMT(info.st_mode):o} {stat.S_IMODE(info.st_mode):o}"
    return found


def set_clock(monkeypatch: pytest.MonkeyPatch, to: datetime | Callable[[], datetime | int]) -> None:
    """Let the program read this time of day from now on: a moment, or what a function returns then (int: nanoseconds)."""

    def read() -> int:
        moment = to if isinstance(to, datetime) else to()
        return moment if isinstance(moment, int) else int(moment.timestamp() * 1e9)

    monkeypatch.setattr(times, "clock", read)


def shift_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the program's time of day forward or back, seen from the true time; it goes on from there."""
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(seconds=seconds))


def use_temporary_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let this process and those that it starts make their temporary files in the folder."""
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # where this process has found out already


def become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program take the files of this user for those of another one."""
    other = os.geteuid() + 1
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: other)


def wait_for(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Return when the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie that its new parent has not waited for does not run."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def fill(path: Path) -> None:
    """Take all the room there is on the file system of `path`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(handle, b"x" * 4096)
    except OSError:
        os.close(handle)


def end_processes_of(home: Path) -> None:
    """End the processes that have this folder, or one below it, as their HOME: what a command has started may go on."""
    until = time.monotonic() + LIMIT
    while found := [
        pid
        for path, pids in host.processes_by_variable("HOME").items()
        if Path(path).is_relative_to(home)
        for pid in pids
    ]:
        assert time.monotonic() < until, f"{found} do not end"
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
