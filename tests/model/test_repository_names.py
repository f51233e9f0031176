"""How screens call repositories: by folder, by the parent folder too where two are alike, else by the name in the registry."""

from __future__ import annotations

import pytest

from imi_monitor.model import repository_names
from imi_monitor.model.snapshot import Key, Worktree
from tests.ui import snapshot_builder


def tree(repo: str, path: str, *, main: bool = True) -> Worktree:
    name = path.rpartition("/")[2]
    return snapshot_builder.tree(name, repo=repo, path=path, is_main=main)


@pytest.mark.parametrize(
    ("trees", "shown"),
    [
        ([tree("shop-origin", "/w/shop")], {"shop-origin": "shop"}),
        ([tree("shop", "/w/shop/trunk-main")], {"shop": "shop"}),
        ([tree("bare", "/w/bare.worktrees/feat-x", main=False)], {"bare": "bare"}),
        ([tree("repo", "/w/api"), tree("repo-2", "/w/web")], {"repo": "api", "repo-2": "web"}),
        ([tree("a", "/w/old/shop"), tree("b", "/w/new/shop")], {"a": "old/shop", "b": "new/shop"}),
        ([tree("a", "/1/old/shop"), tree("b", "/2/old/shop"), tree("c", "/w/web")], {"a": "a", "b": "b", "c": "web"}),
    ],
)
def test_a_repository_is_called_by_its_folder(trees: list[Worktree], shown: dict[str, str]) -> None:
    names = repository_names.of_snapshot(snapshot_builder.world(*trees))
    assert dict(names.pairs) == shown


def test_a_repository_without_a_known_folder_keeps_its_name() -> None:
    trees = [tree("app", "/w/1/feat-x", main=False), tree("app", "/w/2/feat-y", main=False)]
    names = repository_names.of_snapshot(snapshot_builder.world(*trees))
    assert names.shown("app") == "app" and names.shown("of another home") == "of another home"


def test_a_worktree_has_its_repository_in_front_where_there_are_several() -> None:
    one = repository_names.of_snapshot(snapshot_builder.world(tree("x", "/w/shop")))
    two = repository_names.of_snapshot(snapshot_builder.world(tree("x", "/w/shop"), tree("y", "/w/web")))
    key = Key("here", "x", "feat-a")
    assert (one.worktree(key), two.worktree(key)) == ("feat-a", "shop/feat-a")
    assert (one.prefix("x"), two.prefix("x"), two.prefix(None)) == ("", "shop", "")
