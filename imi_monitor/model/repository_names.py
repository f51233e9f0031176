"""How screens call repositories: by their folder. Commands and JSON use the registry's names, which come from the origin."""

from __future__ import annotations

import os
from collections import Counter

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.contained_names import in_git, shown_repository
from imi_monitor.model.run import workspace_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.model.snapshot import Key, Snapshot, Worktree


@dataclass(frozen=True, slots=True)
class RepositoryNames:
    """The repositories of a snapshot: (name in the registry, name shown)."""

    pairs: tuple[tuple[str, str], ...] = ()
    here: str = ""  # this home's host; a worktree of another home has its host in front

    @property
    def several(self) -> bool:
        """Whether a worktree's name needs its repository in front of it."""
        return len(self.pairs) > 1

    def shown(self, repo: str) -> str:
        if not in_git(repo):
            return shown_repository(repo)
        return next((shown for name, shown in self.pairs if name == repo), repo)

    def prefix(self, repo: str | None) -> str:
        """The name shown where there are several repositories, else nothing."""
        return self.shown(repo) if repo is not None and self.several and in_git(repo) else ""

    def worktree(self, key: Key) -> str:
        """`shop/feat-x` where several repositories are shown, else `feat-x`; of another home `build-1:feat-x`.

        A run without a worktree is `run 1b2c3d4e`; a watched one and a contained workspace have their own names.
        """
        host = f"{key.host}:" if self.here and key.host != self.here else ""
        return host + self.without_host(key)

    def without_host(self, key: Key) -> str:
        front = self.prefix(key.repo)
        return f"{front}/{key.worktree}" if front else workspace_name(key.repo, key.worktree)


def of_snapshot(snapshot: Snapshot) -> RepositoryNames:
    """The folder of each repository; two of one name have their parent folder in front, else the registry's name."""
    folders = {repo: _folder(snapshot, repo).split(os.sep) for repo in snapshot.repositories}
    short = {repo: parts[-1] for repo, parts in folders.items()}
    long = {repo: "/".join(parts[-2:]) for repo, parts in folders.items()}
    uses = Counter([*short.values(), *long.values()])
    pairs = [
        (repo, next((name for name in (short[repo], long[repo]) if name and uses[name] == 1), repo)) for repo in folders
    ]
    return RepositoryNames(tuple(pairs), snapshot.host)


def _folder(snapshot: Snapshot, repo: str) -> str:
    """The repository's folder: that of its main worktree, or the cluster around it; empty where none is known."""
    trees = [tree for tree in snapshot.worktrees if tree.key.repo == repo and tree.key.host == snapshot.host]
    main = next((tree.path for tree in trees if tree.is_main), None)
    if main is not None:
        return os.path.dirname(main) if os.path.basename(main).startswith("trunk-") else main
    return _common_parent(trees)


def _common_parent(trees: Sequence[Worktree]) -> str:
    """The folder that holds all worktrees of a bare repository."""
    parents = {os.path.dirname(tree.path) for tree in trees}
    return parents.pop().removesuffix(".worktrees") if len(parents) == 1 else ""
