"""`imi` run by another user of this machine: root starts it and gives its rights up in the child."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT, Ran, end_processes_of

ALICE, BOB = 54321, 54322
_PATH = "/usr/local/bin:/usr/bin:/bin"
# In a mount namespace of its own: makes an interpreter readable that lies in a folder of root's, then runs the command.
_SCRIPT = """
import os, subprocess, sys
uid, hidden, interpreter, aside = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
if hidden:
    for argv in (
        ["mount", "--bind", interpreter, aside], ["mount", "-t", "tmpfs", "-o", "mode=0755", "none", hidden],
        ["mkdir", "-p", interpreter], ["mount", "--move", aside, interpreter],
    ):
        subprocess.run(argv, check=True)
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
os.umask(0o022)
os.execv(sys.argv[5], sys.argv[5:])
"""


class Users:
    """A folder that all users can reach, with a home for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.aside = folder / "aside"
        self.aside.mkdir()
        for uid in (ALICE, BOB):
            self.home(uid).mkdir(mode=0o755)
            os.chown(self.home(uid), uid, uid)

    def home(self, uid: int) -> Path:
        return self.folder / f"home-{uid}"

    def registry(self, uid: int) -> Path:
        return self.home(uid) / ".config" / "iMi" / "iMi.db"

    def run(self, uid: int, *argv: str, cwd: Path | None = None, **env: str) -> Ran:
        """Any program as this user."""
        hidden = _hidden_folder()
        environment = {
            "PATH": _PATH,
            "HOME": str(self.home(uid)),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "USER": f"user{uid}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **env,
        }
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                sys.executable,
                "-c",
                _SCRIPT,
                str(uid),
                hidden,
                sys.base_prefix,
                str(self.aside),
                *argv,
            ],
            cwd=cwd or self.home(uid),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def imi(self, uid: int, *words: str, cwd: Path | None = None, **env: str) -> Ran:
        return self.run(uid, sys.executable, "-m", "imi_monitor", *words, cwd=cwd, **env)

    def git(self, uid: int, *words: str, cwd: Path) -> str:
        done = self.run(
            uid, shutil.which("git", path=_PATH) or "git", "-c", "user.name=a", "-c", "user.email=a@b", *words, cwd=cwd
        )
        assert done.code == 0, done
        return done.out

    def repository(self, uid: int) -> Path:
        """A repository of this user's with the worktree feat-x."""
        path = self.home(uid) / "app"
        self.git(uid, "init", "-q", "-b", "main", str(path), cwd=self.home(uid))
        self.git(uid, "commit", "-q", "--allow-empty", "-m", "first", cwd=path)
        self.git(uid, "worktree", "add", "-q", "-b", "feat/x", str(self.home(uid) / "feat-x"), cwd=path)
        return path


@pytest.fixture
def users() -> Iterator[Users]:
    """Skipped unless root runs the tests and may become somebody else in a mount namespace."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="imi-users-"))
    try:
        folder.chmod(0o755)
        made = Users(folder)
        if made.imi(ALICE, "--version").code != 0:
            pytest.skip("another user cannot run this interpreter here")
        yield made
    finally:
        end_processes_of(folder)  # imi may still delete below it
        shutil.rmtree(folder)


def _hidden_folder() -> str:
    """The folder above the interpreter that other users may not enter; empty when there is none."""
    for folder in reversed(Path(sys.base_prefix).parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return str(folder)
    return ""
