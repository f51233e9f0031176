"""Repositories that try to run their own programs, and every git command that imi uses, to run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from imi_monitor.git.runner import Git
from tests.helpers import git
from tests.limits import LIMIT

ANY_STATUS = tuple(range(-64, 256))
SIGNATURE = "-----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
HOOKS = (
    "post-index-change",
    "post-checkout",
    "reference-transaction",
    "post-merge",
    "pre-push",
    "pre-auto-gc",
    "pre-commit",
)


@dataclass(frozen=True)
class Target:
    """`app` (main work tree), `w` (the linked worktree under test), `spare-*` (worktrees to move, lock and remove)."""

    root: Path

    @property
    def app(self) -> Path:
        return self.root / "app"

    @property
    def common(self) -> Path:
        return self.app / ".git"

    @property
    def tree(self) -> Path:
        return self.root / "w"

    @property
    def admin(self) -> Path:
        return self.common / "worktrees" / "w"

    @property
    def canary(self) -> str:
        """A program that writes a line to the log and copies its input, as a filter does."""
        return str(self.root / "canary.sh")

    @property
    def peer(self) -> str:
        """The same for a connection: it closes at once."""
        return str(self.root / "peer.sh")

    @property
    def fired(self) -> list[str]:
        log = self.root / "fired"
        return log.read_text(errors="replace").splitlines() if log.exists() else []

    def quiet(self) -> None:
        (self.root / "fired").unlink(missing_ok=True)

    def git(self, *args: str | Path, check: bool = True) -> str:
        return git(*args, cwd=self.app, check=check)

    def config(self, *pairs: tuple[str, str]) -> None:
        for key, value in pairs:
            self.git("config", key, value)

    def wrapped(self) -> Git:
        return Git(str(self.common), str(self.admin), str(self.tree))

    def touch(self) -> None:
        """Other content of the same size: git has to read it to know (and so to filter it)."""
        path = self.tree / "x.f"
        text = path.read_text()
        path.write_text(("b" if text[0] == "a" else "a") + text[1:])


def build(root: Path) -> Target:
    """The template: everything the verbs need, with nothing hostile in it yet."""
    made = Target(root)
    root.mkdir(parents=True)
    for script, then in ((made.canary, "cat"), (made.peer, "exit 1")):
        Path(script).write_text(f'#!/bin/sh\nexec 2>/dev/null\necho "$0 $*" >>"{root}/fired"\n{then}\n')
        Path(script).chmod(0o755)
    made.app.mkdir()
    made.git("init", "-q", "-b", "main")
    (made.app / ".gitattributes").write_text("*.f filter=ev diff=ev merge=ev\n*.bin filter=lfs\n")
    (made.app / "x.f").write_text("one\ntwo\nthree\n")
    (made.app / "big.bin").write_text("large\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    made.git("branch", "other")
    (made.app / "x.f").write_text("ONE\ntwo\nthree\n")
    made.git("commit", "-q", "-am", "second")
    signed = made.git("cat-file", "commit", "HEAD").replace("\n\n", f"\ngpgsig {SIGNATURE}\n\n", 1)
    (root / "signed").write_text(signed + "\n")
    made.git("update-ref", "refs/heads/main", made.git("hash-object", "-t", "commit", "-w", root / "signed"))
    git("clone", "-q", "--bare", str(made.app), str(root / "origin.git"), cwd=root)
    made.git("remote", "add", "origin", str(root / "origin.git"))
    _other_branches(made)
    for name in ("w", "spare-move", "spare-remove", "spare-lock"):
        made.git("worktree", "add", "-q", "-b", name, str(root / name), "main")
    return made


def _other_branches(made: Target) -> None:
    """`other` changes the same file as main; `ahead` is main and one signed commit that adds a filtered file."""
    made.git("checkout", "-q", "other")
    (made.app / "x.f").write_text("one\ntwo\nTHREE\n")
    made.git("commit", "-q", "-am", "third")
    made.git("checkout", "-q", "-b", "ahead", "main")
    (made.app / "new.f").write_text("new\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "ahead")
    signed = made.git("cat-file", "commit", "HEAD").replace("\n\n", f"\ngpgsig {SIGNATURE}\n\n", 1)
    (made.root / "signed").write_text(signed + "\n")
    made.git("update-ref", "refs/heads/ahead", made.git("hash-object", "-t", "commit", "-w", made.root / "signed"))
    made.git("checkout", "-q", "main")


def copy(template: Target, root: Path) -> Target:
    """The template at another place: its absolute paths are in these few files."""
    shutil.copytree(template.root, root, symlinks=True)
    made = Target(root)
    named: Iterable[Path] = (
        Path(made.canary),
        Path(made.peer),
        made.common / "config",
        *made.common.glob("worktrees/*/gitdir"),
        *root.glob("*/.git"),
    )
    for path in named:
        if path.is_file():
            path.write_text(path.read_text().replace(str(template.root), str(root)))
    made.git("update-index", "-q", "--refresh")
    git("update-index", "-q", "--refresh", cwd=made.tree)
    return made


Act = Callable[[Target], tuple[str, ...]]


def _worktree(*args: str) -> Act:
    return lambda target: ("worktree", *(arg.replace("@", str(target.root)) for arg in args))


def _plainly(*args: str) -> Act:
    return lambda _: args


# Each git verb that imi runs, in the form that uses most of a repository's configuration.
VERBS: dict[str, Act] = {
    "status": _plainly("status", "--porcelain=v2", "-z", "--branch"),
    "diff": _plainly("diff", "HEAD"),
    "diff-index": _plainly("diff-index", "-p", "HEAD"),
    "log": _plainly("log", "-3", "--format=%H"),
    "log -p": _plainly("log", "-p", "-2"),
    "show": _plainly("show", "HEAD"),
    "diff-tree": _plainly("diff-tree", "-p", "HEAD"),
    "ls-files": _plainly("ls-files", "-z", "--modified", "--others"),
    "worktree add": _worktree("add", "-b", "fresh", "@/fresh", "HEAD"),
    "worktree list": _worktree("list", "--porcelain"),
    "worktree lock": _worktree("lock", "@/spare-lock"),
    "worktree move": _worktree("move", "@/spare-move", "@/moved"),
    "worktree remove": _worktree("remove", "@/spare-remove"),
    "merge-tree": _plainly("merge-tree", "--write-tree", "main", "other"),
    "merge --ff-only": _plainly("merge", "--ff-only", "ahead"),
    "commit-tree": _plainly("commit-tree", "HEAD^{tree}", "-m", "x"),
    "update-ref": _plainly("update-ref", "refs/heads/fresh-ref", "HEAD"),
    "for-each-ref": _plainly("for-each-ref"),
    "fetch": _plainly("fetch", "origin"),
    "ls-remote": _plainly("ls-remote", "origin"),
    "push": _plainly("push", "origin", "HEAD:refs/heads/pushed"),
    "cherry": _plainly("cherry", "main", "other"),
    "rev-list": _plainly("rev-list", "--objects", "HEAD"),
    "config": _plainly("config", "--list"),
    "credential": _plainly("credential", "fill"),  # what a fetch over https does when the server asks who we are
    "add": _plainly("add", "-A"),  # of a snapshot, into an index of its own
}
STDIN = {"credential": b"protocol=https\nhost=example.invalid\n\n"}


def run_wrapped(target: Target, verb: str) -> None:
    """Run `verb` as imi runs it. Git's result does not matter, only what it executed."""
    from imi_monitor.model.errors import GitError

    env = {}
    if verb == "add":
        env["GIT_INDEX_FILE"] = shutil.copy(target.admin / "index", target.root / "index-copy")
    try:
        target.wrapped().run(
            *VERBS[verb](target),
            ok=ANY_STATUS,
            timeout=LIMIT,
            env=env,
            stdin=STDIN.get(verb),
            settings=[("user.name", "t"), ("user.email", "t@example.invalid")],
        )
    except GitError as error:
        assert "refused" in error.sentence, error.sentence


def run_plain(target: Target, verb: str) -> None:
    """Run it with plain git, from the folder a user would use."""
    env = dict(os.environ)
    if verb == "add":
        env["GIT_INDEX_FILE"] = shutil.copy(target.admin / "index", target.root / "index-copy")
    subprocess.run(
        ["git", *VERBS[verb](target)],
        cwd=target.tree,
        input=STDIN.get(verb, b""),
        capture_output=True,
        check=False,
        env={**env, "GIT_TERMINAL_PROMPT": "0"},
        timeout=LIMIT,
    )


def cells(target: Target, run: Callable[[Target, str], None]) -> dict[str, list[str]]:
    """Which verbs ran the canary, and how."""
    found = {}
    for verb in VERBS:
        target.touch()
        target.quiet()
        run(target, verb)
        if target.fired:
            found[verb] = target.fired
    return found
