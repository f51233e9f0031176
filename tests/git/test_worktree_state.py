"""The git state of a worktree: whether its branch is merged."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition, read_state, update_trunk_distance
from imi_monitor.model.snapshot import GitState
from tests.helpers import Repo
from tests.sources.source_kit import roster_entry


def trunk_of(repo: Repo) -> TrunkPosition:
    return TrunkPosition("refs/heads/main", repo.git("rev-parse", "main").strip())


def state_of(repo: Repo, name: str) -> tuple[Git, GitState]:
    entry = roster_entry(repo.path.parent, name)
    git = Git(entry.common_dir, entry.admin_dir, entry.path)
    return git, read_state(git, trunk_of(repo), None, None, linked=True)


def test_a_branch_is_merged_when_the_trunk_has_the_commits_it_had(repo: Repo) -> None:
    made = repo.worktree("feat-x")
    git, state = state_of(repo, "feat-x")
    assert not state.merged, "a new branch has no commit that could be merged"
    made.write("own.py", "x = 1\n")
    made.commit("own work")
    git, state = state_of(repo, "feat-x")
    assert not state.merged
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "feat/x")
    moved = update_trunk_distance(git, trunk_of(repo), state)
    assert moved.merged and moved == replace(state, merged=True, trunk_ahead=0, trunk_behind=1)
    assert state_of(repo, "feat-x")[1].merged


def test_the_trunk_itself_is_not_merged(repo: Repo) -> None:
    repo.write("more.txt", "x")
    repo.commit("more")
    git = Git(str(repo.path / ".git"), str(repo.path / ".git"), str(repo.path))
    assert not read_state(git, trunk_of(repo), None, None, linked=False).merged
    remote = replace(trunk_of(repo), ref="refs/remotes/origin/main")
    assert not read_state(git, remote, None, None, linked=False).merged
