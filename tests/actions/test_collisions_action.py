"""`imi collisions`: overlaps, conflicts and conflicting lines of worktrees, without any write."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.status import collisions_action
from imi_monitor.model.errors import GitError, Refused
from tests.helpers import Repo, imi, tree_hash


@pytest.fixture
def trees(repo: Repo) -> tuple[Repo, Repo, Repo]:
    return repo.worktree("feat-api"), repo.worktree("fix-bug"), repo.worktree("feat-ui")


def pairs(repo: Repo, *words: str) -> dict[tuple[str, str | None], tuple[list[str], list[str] | None]]:
    data = imi("--json", "collisions", *words, cwd=repo.path).data
    assert data["count"] == len(data["collisions"])
    return {(one["left"], one["right"]): (one["files"], one["conflicts"]) for one in data["collisions"]}


def test_collisions_lists_overlaps_conflicts_and_the_trunk(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    api, bug, ui = trees
    api.write("src/api.py", "def api():\n    return 10\n")
    bug.write("src/api.py", "def api():\n    return 20\n")
    bug.commit("bug")
    ui.write("new/one.txt", "only here\n")
    repo.write("src/api.py", "def api():\n    return 1\n\n\nMORE\n")
    repo.commit("the trunk goes on")
    found = pairs(repo)
    assert found[("feat-api", "fix-bug")] == (["src/api.py"], ["src/api.py"])
    assert found[("fix-bug", None)][0] == ["src/api.py"]
    assert not any("feat-ui" in pair for pair in found)
    assert pairs(repo, "feat-ui") == {}
    assert set(pairs(repo, "feat-api")) == {("feat-api", "fix-bug"), ("feat-api", None)}


def test_an_overlap_that_merges_cleanly_is_no_conflict(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    repo.write("long.txt", text)
    repo.commit("long")
    for tree in trees[:2]:
        tree.git("merge", "-q", "--ff-only", "main")
    trees[0].write("long.txt", text.replace("line 2\n", "line two\n"))
    trees[1].write("long.txt", text.replace("line 27\n", "line twenty-seven\n"))
    assert pairs(repo) == {("feat-api", "fix-bug"): (["long.txt"], [])}
    assert pairs(repo, "--overlap") == {("feat-api", "fix-bug"): (["long.txt"], None)}
    assert "merges cleanly" in imi("collisions", cwd=repo.path).out


def test_collisions_of_two_worktrees_shows_the_conflicting_lines(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    trees[0].write("src/api.py", "def api():\n    return 10\n")
    trees[1].write("src/api.py", "def api():\n    return '\x1b]52;c;x\x07'\n")
    data = imi("--json", "collisions", "feat-api", "fix-bug", cwd=repo.path).data
    (file,) = data["conflicts"]
    sides = {line["side"]: line["text"] for line in file["hunks"][0]["lines"]}
    assert sides["ours"] == "    return 10"
    assert "return '" in sides["theirs"]
    shown = imi("collisions", "feat-api", "fix-bug", cwd=repo.path)
    assert "<     return 10" in shown.out and "line 2" in shown.out
    assert "\x1b" not in shown.out


def test_collisions_with_the_trunk_by_name(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    trees[0].write("README.md", "mine\n")
    repo.write("README.md", "the trunk's\n")
    repo.commit("trunk")
    data = imi("--json", "collisions", "feat-api", "trunk", cwd=repo.path).data
    assert data["collisions"][0]["right"] is None
    assert [line["side"] for line in data["conflicts"][0]["hunks"][0]["lines"]] == ["ours", "theirs"]


@pytest.mark.parametrize(
    "name", ["a[1].txt", ":(glob)x", "-n.txt", "tab\tname", "new\nline", "日本.txt", "bad\udcff.txt"]
)
def test_collisions_handles_odd_names_and_binary_files(repo: Repo, trees: tuple[Repo, Repo, Repo], name: str) -> None:
    for content, tree in zip((b"one\n", b"two\n"), trees, strict=False):
        (tree.path / name).write_bytes(content)
        (tree.path / "bytes.bin").write_bytes(b"\0" + content)
    data = imi("--json", "collisions", "feat-api", "fix-bug", cwd=repo.path).data
    shown = {one["path"]: one for one in data["conflicts"]}
    assert shown["bytes.bin"]["why"] == "binary"
    (odd,) = (one for path, one in shown.items() if path != "bytes.bin")
    assert [line["text"] for line in odd["hunks"][0]["lines"]] == ["one", "two"]


def test_collisions_shows_changed_here_and_deleted_there(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    trees[0].write("README.md", "changed\n")
    (trees[1].path / "README.md").unlink()
    ran = imi("--json", "collisions", "feat-api", "fix-bug", cwd=repo.path)
    assert ran.data["collisions"][0]["conflicts"] == ["README.md"]
    assert ran.data["conflicts"][0]["why"]
    (message,) = ran.data["messages"]
    assert "feat-api" in message and "fix-bug" in message, "git calls them by their commits"


def test_collisions_does_not_read_a_huge_file_in_full(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    for sign, tree in zip("ab", trees, strict=False):
        tree.write("huge.txt", (sign * 99 + "\n") * 12_000)
    data = imi("--json", "collisions", "feat-api", "fix-bug", cwd=repo.path).data
    assert data["conflicts"][0] == {"path": "huge.txt", "why": "larger than 1 MB", "hunks": []}


def test_collisions_writes_nothing_into_the_repository(
    repo: Repo, trees: tuple[Repo, Repo, Repo], tmp_path: Path
) -> None:
    for sign, tree in zip("abc", trees, strict=True):
        tree.write("src/api.py", f"{sign}\n")
        tree.write(f"new/{sign}.txt", sign)
    before = tree_hash(repo.path), [tree_hash(tree.path) for tree in trees]
    assert len(pairs(repo)) == 3
    assert imi("collisions", "feat-api", "fix-bug", cwd=repo.path).code == 0
    assert before == (tree_hash(repo.path), [tree_hash(tree.path) for tree in trees])


def test_wrong_collisions_requests_are_refused(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    assert imi("collisions", "feat-api", "feat-api", cwd=repo.path).code == 2
    assert imi("collisions", "feat-api", "nothing-like-it", cwd=repo.path).code == 1
    assert imi("collisions", cwd=repo.path).out == "no two worktrees changed the same file\n"


def test_collisions_can_be_cancelled(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    with Context(str(repo.path), cancelled=lambda: True) as context, pytest.raises(Refused, match="cancelled"):
        collisions_action.ACTIONS[0].run(context, Request("collisions", {}))


def test_a_running_trial_merge_can_be_cancelled(repo: Repo, trees: tuple[Repo, Repo, Repo]) -> None:
    with Context(str(repo.path), cancelled=lambda: True) as context, pytest.raises(GitError) as caught:
        collisions_action.ACTIONS[0].run(context, Request("collisions", {"name": "feat-api", "other": "fix-bug"}))
    assert caught.value.code == "cancelled"
