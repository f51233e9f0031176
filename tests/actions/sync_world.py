"""A cluster for the tests of `imi sync`, and the one oracle they share: nothing outside, nothing overwritten, nothing staged."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from imi_monitor.actions.context import Context
from imi_monitor.actions.sync.sync_action import SyncResult, sync_worktrees
from imi_monitor.git import layout
from tests.helpers import Repo, git, tree_hash


@dataclass(frozen=True)
class World:
    """`home` is the cluster; `outside` a folder beside it that must never change."""

    home: Path
    trunk: Repo
    feat: Repo
    outside: Path

    @classmethod
    def of(cls, cluster: Repo) -> World:
        outside = cluster.path.parent.parent / "outside"
        outside.mkdir()
        (outside / "secret").write_text("secret\n")
        return cls(cluster.path.parent, cluster, cluster.worktree("feat-a"), outside)

    @property
    def repository(self) -> layout.Repository:
        return layout.repository_at(str(self.trunk.path / ".git"))

    @property
    def exclude(self) -> Path:
        return self.trunk.path / ".git" / "info" / "exclude"

    def share(self, name: str, text: str = "shared\n", folder: str = "sync/repo") -> Path:
        target = self.home / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def sync(self, *, check: bool = False) -> SyncResult:
        with Context(str(self.trunk.path)) as context:
            result = sync_worktrees(context, self.repository, check=check)
        assert result is not None
        return result

    def report(self, result: SyncResult, worktree: str = "feat-a") -> dict[str, str]:
        """name -> reason of what was refused in one worktree, and among the sources."""
        found = dict(result.shared.refused)
        for name, _, report in result.worktrees:
            if name == worktree:
                found.update(report.conflicts)
        return found


class Oracle:
    """Records everything before a sync, and asserts afterwards that nothing forbidden happened."""

    def __init__(self, world: World, worktrees: list[Path]) -> None:
        self.world = world
        self.worktrees = worktrees
        self.outside = tree_hash(world.outside)
        self.sources = tree_hash(world.home / "sync")
        self.before = list(map(_content, worktrees))

    def check(self) -> None:
        assert tree_hash(self.world.outside) == self.outside, "something was written outside"
        assert tree_hash(self.world.home / "sync") == self.sources, "a source was changed"
        for path, before in zip(self.worktrees, self.before, strict=True):
            after = _content(path)
            for name, kind in before.items():
                untouched = after.get(name) == kind or self._ours(path / name, kind)
                assert untouched or self._emptied(path, name, before), f"{name} was {kind}, is {after.get(name)}"
            for name in after.keys() - before.keys():
                entry = path / name
                assert (entry.is_dir() and not entry.is_symlink()) or self._right(entry), f"{name} is {after[name]}"
            self._stage(path, before)

    def _ours(self, entry: Path, kind: str) -> bool:
        """Whether what was there was a link into sync/, which may be re-pointed, or removed for a folder too."""
        link = kind.removeprefix("link ")
        target = os.path.normpath(os.path.join(os.path.realpath(entry.parent), link))
        if kind == link or not target.startswith(f"{self.world.home}/sync/"):
            return False
        return not os.path.lexists(entry) or self._right(entry) or (entry.is_dir() and not entry.is_symlink())

    def _emptied(self, path: Path, name: str, before: dict[str, str]) -> bool:
        """Whether a folder is gone that held links into sync/ and nothing else: it goes with the last of them."""
        inside = {other: kind for other, kind in before.items() if other.startswith(name + "/")}
        links = [other for other, kind in inside.items() if kind.startswith("link ")]
        folders = [other for other, kind in inside.items() if kind.startswith("40000 ")]
        gone = before[name].startswith("40000 ") and not os.path.lexists(path / name) and bool(links)
        return gone and len(links) + len(folders) == len(inside) and all(self._ours(path / o, inside[o]) for o in links)

    def _right(self, entry: Path) -> bool:
        link = os.readlink(entry) if entry.is_symlink() else "/"
        real = os.path.realpath(entry)
        return not os.path.isabs(link) and real.startswith(f"{self.world.home}/") and os.path.isfile(real)

    def _stage(self, path: Path, before: dict[str, str]) -> None:
        """After `git add -A` no link into sync/ may be in the index, except links that existed before."""
        git("add", "-A", cwd=path)
        for line in git("ls-files", "-s", "-z", cwd=path).split("\0"):
            mode, _, name = line.partition("\t")
            if mode.startswith("120000"):
                target = git("show", f":{name}", cwd=path)
                folder = os.path.realpath((path / name).parent)
                landing = os.path.normpath(os.path.join(folder, target))
                left = before.get(name) == f"link {target}" and not os.path.isfile(landing)
                assert left or not landing.startswith(f"{self.world.home}/sync/"), f"{name} was staged"
        git("reset", "-q", cwd=path)


def _content(path: Path) -> dict[str, str]:
    """Everything in a worktree but git's own."""
    return {name: kind for name, kind in tree_hash(path).items() if name != ".git" and not name.startswith(".git/")}


def clear(path: Path) -> None:
    """Empty a worktree but for its .git."""
    for entry in path.iterdir():
        if entry.name != ".git":
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
