"""Worlds to break: a cluster on a disk whose N-th call fails, and what must still be true of it afterwards."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import ROOT, Ran, Repo, end_processes_of, git, imi_argv, tree_hash

# What is made to fail; of each family every call counts.
FAMILIES = {
    "write": "write,writev",
    "page": "pwrite64,pwritev,ftruncate,fallocate",  # SQLite's
    "sync": "fsync,fdatasync",
    "rename": "rename,renameat,renameat2",
    "link": "link,linkat,symlink,symlinkat",
    "unlink": "unlink,unlinkat,rmdir",
    "mkdir": "mkdir,mkdirat",
}
ERRORS = ("ENOSPC", "EIO", "EACCES")
_DATABASE = ".config/iMi/iMi.db"


@dataclass(frozen=True)
class World:
    """A folder with a home and a cluster in it; it can be put back as it was at the same place."""

    root: Path
    kept: Path

    @property
    def trunk(self) -> Path:
        return self.root / "code" / "trunk-main"

    def path(self, name: str) -> Path:
        return self.root / "code" / name

    @property
    def env(self) -> dict[str, str]:
        home = self.root / "home"
        return {
            **os.environ,
            "HOME": str(home),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "DENKER_MEMORY_DATA_PATH": str(self.root / "denker" / "memory"),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def imi(self, words: str, before: tuple[str, ...] = ()) -> Ran:
        done = subprocess.run(
            [*before, *imi_argv(*words.split())],
            cwd=self.trunk,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def must(self, words: str) -> None:
        ran = self.imi(words)
        assert ran.code == 0, (words, ran)

    def keep(self) -> None:
        subprocess.run(["cp", "-a", str(self.root), str(self.kept)], check=True)

    def put_back(self) -> None:
        end_processes_of(self.root)  # what a killed imi has started may still delete below it
        shutil.rmtree(self.root)
        subprocess.run(["cp", "-a", str(self.kept), str(self.root)], check=True)
        self._accept_copied_trash()

    def _accept_copied_trash(self) -> None:
        """As `imi repair TRASH` does: a copied folder has another inode than the one that was removed."""
        database = self.root / "home" / _DATABASE
        folders = list((self.trunk / ".git" / "imi" / "trash").glob("*/worktree"))
        if folders and database.exists():
            with closing(sqlite3.connect(database)) as connection:
                for folder in folders:
                    values = (folder.stat().st_ino, folder.parent.name)
                    connection.execute("UPDATE trash SET data = json_set(data, '$.inode', ?) WHERE id = ?", values)
                connection.commit()

    def ask(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.root / "home" / _DATABASE)) as connection:
            return connection.execute(sql, values).fetchall()


def make(tmp_path: Path) -> World:
    world = World(tmp_path / "world", tmp_path / "kept")
    home = world.root / "home"
    home.mkdir(parents=True)
    shutil.copy(os.environ["GIT_CONFIG_GLOBAL"], home / ".gitconfig")
    repo = Repo.create_with_origin(world.trunk, world.root / "origin.git")
    sync = world.root / "code" / "sync" / "repo"
    sync.mkdir(parents=True)
    (world.root / "code" / ".iMi").mkdir()
    (sync / ".env").write_text("A=1\n")
    repo.write("src/big.txt", "line\n" * 1000)
    return world


@dataclass(frozen=True)
class Verb:
    """A command, what comes before it, and how to see that it was done."""

    words: str
    before: tuple[str, ...]
    done: Callable[[World], bool]


def _work(world: World) -> None:
    """What an agent leaves in a worktree, none of it in git: lost work would be seen by its absence."""
    (world.path("feat-login") / "build").mkdir(exist_ok=True)
    (world.path("feat-login") / "build" / "out.bin").write_bytes(bytes(range(256)) * 64)


def _owner(world: World) -> object:
    found = world.ask("SELECT agent_id FROM claims WHERE worktree_name = 'feat-login'")
    return found[0][0] if found else None


def _shared(world: World, name: str) -> bool:
    return all((world.path(place) / name).is_symlink() for place in ("trunk-main", "feat-login"))


def _new(world: World) -> None:
    (world.path("sync") / "repo" / "new.toml").write_text("b = 2\n")


STEPS: dict[str, Callable[[World], None]] = {"(work)": _work, "(new shared file)": _new}
VERBS = {
    "feat": Verb("feat other", ("feat login",), lambda world: (world.path("feat-other") / "src" / "api.py").is_file()),
    "first feat": Verb("feat login", (), lambda world: (world.path("feat-login") / "src" / "api.py").is_file()),
    "claim": Verb("claim login --agent a", ("feat login",), lambda world: _owner(world) == "a"),
    "release": Verb(
        "release login --agent a", ("feat login", "claim login --agent a"), lambda world: _owner(world) is None
    ),
    "remove": Verb("remove login", ("feat login", "(work)"), lambda world: not world.path("feat-login").exists()),
    "undo": Verb(
        "undo", ("feat login", "(work)", "remove login"), lambda world: (world.path("feat-login") / "build").is_dir()
    ),
    "sync": Verb("sync", ("feat login", "(new shared file)"), lambda world: _shared(world, "new.toml")),
    "list": Verb("list", ("feat login",), lambda _: True),
}


def prepare(tmp_path: Path, verb: Verb) -> World:
    world = make(tmp_path)
    for step in verb.before:
        STEPS[step](world) if step in STEPS else world.must(step)
    world.keep()
    return world


def count(world: World, verb: Verb, family: str) -> int:
    """How often the calls of a family happen, in the process that makes most of them."""
    log = world.root.parent / "calls"
    world.imi(verb.words, _strace(family, log))
    calls: dict[str, int] = {}
    for line in log.read_text(errors="replace").splitlines():
        if called := re.match(r"(\d* *)[a-z0-9_]+\(", line):
            calls[called[1]] = calls.get(called[1], 0) + 1
    world.put_back()
    return max(calls.values(), default=0)


def broken(world: World, verb: Verb, family: str, error: str, number: int) -> list[str]:
    """Run the command with its `number`-th call failing; everything that is wrong afterwards."""
    before = contents(world)
    log = world.root.parent / "calls"
    ran = world.imi(verb.words, (*_strace(family, log), "-e", f"inject={FAMILIES[family]}:error={error}:when={number}"))
    problems = [*_answer(ran, may_be_mute=family == "write"), *_settled(world, before)]
    if ran.code == 0 and not verb.done(world):
        problems.append(f"it said it was done, and it is not: {ran.out!r}")
    if not verb.done(world):  # afterwards the same command line still works
        again = world.imi(verb.words)
        if again.code != 0 or not verb.done(world):
            problems.append(f"a second try does not work: {again}")
        problems += _settled(world, before)
    if problems:
        problems.append(f"(it had answered {ran})")
    world.put_back()
    return problems


def _strace(family: str, log: Path) -> tuple[str, ...]:
    # a git that may not take its own lock files away leaves them behind, and they are not ours to remove
    children = () if family == "unlink" else ("--seccomp-bpf", "-f")
    return ("strace", *children, "-qq", "-o", str(log), "-e", f"trace={FAMILIES[family]}")


def _answer(ran: Ran, *, may_be_mute: bool) -> list[str]:
    """Exit status 0, or 1 with a sentence: never a traceback, never a status that means something else."""
    problems = []
    if "Traceback" in ran.err or "Exception ignored" in ran.err:
        problems.append("a traceback")
    if "went wrong inside imi" in ran.err:
        problems.append("an unexpected error")
    if ran.code not in (0, 1):
        problems.append(f"exit status {ran.code}")
    if ran.code == 1 and not may_be_mute and not any(line.startswith("imi: ") for line in ran.err.splitlines()):
        problems.append("no sentence")
    return problems


def contents(world: World) -> dict[str, dict[str, str]]:
    """The bytes of every worktree by its name, wherever it is now; git's own link file is not of them."""
    found = {}
    for name in ("trunk-main", "feat-login"):
        places = [world.path(name), *(Path(str(row[0])) for row in _trashed(world) if row[1] == name)]
        for place in places:
            if place.is_dir():
                skip = (".git", ".env", "new.toml")
                found[name] = {
                    entry: what for entry, what in tree_hash(place).items() if entry.split("/")[0] not in skip
                }
    return found


def _trashed(world: World) -> list[tuple[object, ...]]:
    if not (world.root / "home" / _DATABASE).exists():
        return []
    return world.ask("SELECT trash_path, worktree_name FROM trash WHERE restored_at IS NULL AND purged_at IS NULL")


def _settled(world: World, before: dict[str, dict[str, str]]) -> list[str]:
    """After the next command the registry, git and the disk tell one story, and no byte of work is missing."""
    ran = world.imi("list")
    if ran.code != 0:
        return [f"the next command fails: {ran}"]
    return [*_registry(world), *_worktrees(world), *_trash(world), *_claims(world), *_work_kept(world, before)]


def _registry(world: World) -> list[str]:
    problems = []
    if world.ask("PRAGMA integrity_check") != [("ok",)]:
        problems.append("the registry is damaged")
    if left := world.ask("SELECT kind, worktree_name FROM operations"):
        problems.append(f"operations are left: {left}")
    return problems


def _worktrees(world: World) -> list[str]:
    listed = git("worktree", "list", "--porcelain", cwd=world.trunk).split("\n\n")
    known = {text.splitlines()[0].removeprefix("worktree ") for text in listed[1:] if "imi trash" not in text}
    rows = {
        str(row[0]) for row in world.ask("SELECT path FROM worktrees WHERE active = 1 AND worktree_type <> 'trunk'")
    }
    there = {str(path) for path in world.path("").iterdir() if path.name.startswith(("feat-", "fix-"))}
    branches = set(git("for-each-ref", "--format=%(refname:short)", "refs/heads/feat", cwd=world.trunk).split())
    wanted = {str(row[0]) for row in world.ask("SELECT branch_name FROM worktrees WHERE worktree_type = 'feat'")}
    problems = []
    if not known == rows == there:
        problems.append(f"git has {known}, the registry {rows}, the disk {there}")
    if branches != wanted:
        problems.append(f"branches {branches}, in the registry {wanted}")
    if "locked initializing" in "".join(listed):
        problems.append("a worktree is locked as initializing")
    return problems


def _trash(world: World) -> list[str]:
    rows = {Path(str(row[0])) for row in _trashed(world)}
    places = [world.trunk / ".git" / "imi" / "trash", world.path(".imi-trash")]
    there = {entry for place in places if place.is_dir() for entry in place.iterdir()}
    held = {entry for entry in there if any(row == entry or entry in row.parents for row in rows)}
    missing = [row for row in rows if not row.is_dir()]
    return [f"trash without a row: {there - held}"] * bool(there - held) + [f"trash is gone: {missing}"] * bool(missing)


def _claims(world: World) -> list[str]:
    apart = world.ask(
        "SELECT c.worktree_name, c.agent_id, w.agent_id FROM claims c JOIN worktrees w USING (repo_name, worktree_name)"
        " WHERE c.agent_id IS NOT w.agent_id"
    )
    untold = world.ask(
        "SELECT worktree_name, epoch FROM claims c WHERE agent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events e"
        " WHERE e.worktree_name = c.worktree_name AND e.epoch = c.epoch AND e.type = 'worktree.claimed')"
    )
    return [f"owners differ: {apart}"] * bool(apart) + [f"claims without their event: {untold}"] * bool(untold)


def _work_kept(world: World, before: dict[str, dict[str, str]]) -> list[str]:
    after = contents(world)
    return [f"work of {name} has changed or is gone" for name, files in before.items() if after.get(name) != files]
