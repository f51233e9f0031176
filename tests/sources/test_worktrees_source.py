"""The roster of repositories that the registry does not have yet."""

from __future__ import annotations

from pathlib import Path

from imi_monitor.actions.context import Context
from imi_monitor.sources.worktrees_source import read_roster
from tests.helpers import Repo, git, imi


def test_clones_of_one_origin_have_names_of_their_own(repo: Repo, tmp_path: Path) -> None:
    """As broken they were one repository, and a worktree of the second one had the claim of its namesake in the first."""
    places = [tmp_path / name for name in ("one/app", "two/app")]
    for place in places:
        git("clone", "-q", str(repo.path), str(place), cwd=tmp_path)
        git("worktree", "add", "-q", "-b", "feat/x", str(place.parent / "feat-x"), cwd=place)

    def names(*dirs: Path) -> list[str]:
        with Context(repo=str(repo.path)) as context:
            entries, _ = read_roster(context.connection, [str(one / ".git") for one in dirs], context.database)
            return [entry.key.repo for entry in entries if entry.is_main]

    assert names(*places) == ["app", "app@two"]
    imi("claim", "feat-x", "--agent", "claude-1", cwd=places[0])
    assert names(places[1]) == ["app@two"] and names(*reversed(places)) == ["app@two", "app"]
    imi("claim", "feat-x", "--agent", "codex-1", cwd=places[1])
    assert names(*places) == ["app", "app@two"], "the registry gives the same name"
