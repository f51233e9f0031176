"""Distances of many commits from one, read by two processes, are those that git counts one by one."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable

import pytest

from imi_monitor.git import distances
from tests.git.git_kit import commit_id, make_branch, open_git
from tests.helpers import Repo


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "_known", {})


def _grow(repo: Repo, seed: int, number: int) -> list[str]:
    """Make a random history with branches, merges and several roots; the dates of its commits are in disorder."""
    chance = random.Random(seed)
    lines = []
    for mark in range(1, number + 1):
        parents = chance.sample(range(max(1, mark - 9), mark), k=min(mark - 1, chance.choice((0, 1, 1, 1, 1, 2))))
        lines += [f"commit refs/heads/c{mark}", f"mark :{mark}", f"committer a <a@b.c> {chance.randrange(9**9)} +0000"]
        lines += ["data 0"]
        lines += [f"{'merge' if at else 'from'} :{parent}" for at, parent in enumerate(parents)] + [""]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo.path, input="\n".join(lines).encode(), check=True)
    return repo.git("for-each-ref", "--format=%(objectname)", "refs/heads/c*").splitlines()


def _by_git(repo: Repo, tip: str, base: str) -> tuple[int, int]:
    ahead, behind = repo.git("rev-list", "--left-right", "--count", f"{tip}...{base}").split()
    return int(ahead), int(behind)


@pytest.mark.parametrize("seed", range(4))
def test_distances_of_a_random_history_are_those_of_git(repo: Repo, seed: int) -> None:
    commits = _grow(repo, seed, 40)
    chance = random.Random(seed)
    base, tips = commits[chance.randrange(40)], chance.sample(commits, 9)
    distances.read_distances(open_git(repo), tips, base)
    assert {key[1] for key in distances._known} == set(tips) - {base}
    for tip in tips:
        assert distances.find_distance(open_git(repo), tip, base) == _by_git(repo, tip, base)


def test_distances_of_all_branches_take_two_processes(repo: Repo, count_git: Callable[[], int]) -> None:
    tips = [make_branch(repo, f"b{number}", (f"f{number}", "x")) for number in range(3)]
    make_branch(repo, "long", *((f"g{number}", "x") for number in range(4)), start="b0")
    git, base = open_git(repo), commit_id(repo, "long")
    before = count_git()
    distances.read_distances(git, [*tips, tips[0], base], base)
    assert count_git() - before == 2
    assert [distances.find_distance(git, tip, base) for tip in [*tips, base]] == [(0, 4), (1, 5), (1, 5), (0, 0)]
    distances.read_distances(git, tips, base)
    assert count_git() - before == 2, "known ones are not read again"


def test_a_history_without_a_common_commit_is_read_one_by_one_if_it_is_long(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distances, "_MOST_COMMITS", 3)
    commits = _grow(repo, 7, 12)
    distances.read_distances(open_git(repo), commits[1:], commits[0])
    assert not distances._known
    assert distances.find_distance(open_git(repo), commits[3], commits[0]) == _by_git(repo, commits[3], commits[0])


def test_a_missing_commit_leaves_only_its_own_distance_unknown(repo: Repo) -> None:
    tips = [make_branch(repo, f"b{number}", (f"f{number}", "x")) for number in range(2)]
    git, base, missing = open_git(repo), commit_id(repo), "1" * 40
    distances.read_distances(git, [*tips, missing], base)
    assert [distances.find_distance(git, tip, base) for tip in tips] == [(1, 0), (1, 0)]
    assert distances.find_distance(git, missing, base) == (None, None)
