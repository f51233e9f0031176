"""`imi commit`, `imi push`, `imi update` and `imi propose`, with a real remote: done whole, or refused with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.remote_address import proposal_page
from tests.actions.removal_kit import act, admin_of
from tests.git.git_kit import commit_on_main
from tests.helpers import Repo, git, imi, tree_hash


@pytest.fixture
def shared(tmp_path: Path) -> Repo:
    return Repo.create_with_origin(tmp_path / "app", tmp_path / "origin.git")


@pytest.fixture
def feat(shared: Repo) -> Repo:
    return shared.worktree("feat-x")


def run(verb: str, feat: Repo, **values: Any) -> Outcome:
    return act(verb, cwd=feat.path, name="feat-x", **values)


def test_commit_takes_what_is_staged_and_nothing_else(feat: Repo) -> None:
    with pytest.raises(Refused, match="nothing is staged"):
        run("commit", feat, message="empty")
    feat.write("README.md", "staged\n")
    feat.git("add", "README.md")
    feat.write("README.md", "later\n")
    feat.write("new.txt", "new\n")
    hook = feat.path.parent / "app/.git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    outcome = run("commit", feat, message="Do it\n\n# and this\n")
    assert "hooks run only after `imi trust`" in outcome.lines[0] and not (feat.path / "ran").exists()
    assert feat.git("log", "-1", "--format=%B").strip() == "Do it"
    assert feat.git("show", "HEAD:README.md") == "staged"
    assert feat.git("status", "--porcelain").split("\n") == ["M README.md", "?? new.txt"]
    with pytest.raises(UsageError):
        run("commit", feat, message=" ")
    assert "committed in feat-x: Do it" in imi("events", cwd=feat.path).out


def test_commit_is_refused_while_the_index_is_locked_or_head_is_detached(feat: Repo) -> None:
    feat.write("README.md", "staged\n")
    feat.git("add", "README.md")
    before = feat.git("rev-parse", "HEAD")
    lock = admin_of(feat.path) / "index.lock"
    lock.write_text("")
    with pytest.raises(ImiError, match="another git is running"):
        run("commit", feat, message="no")
    lock.unlink()
    feat.git("checkout", "-q", "--detach")
    with pytest.raises(Refused, match="on no branch"):
        run("commit", feat, message="no")
    assert feat.git("rev-parse", "HEAD") == before


def test_push_makes_an_upstream_once_and_never_forces(feat: Repo, tmp_path: Path) -> None:
    feat.write("new.txt", "new\n")
    feat.commit("new")
    assert run("push", feat).lines == ["pushed feat/x to origin/feat/x"]
    origin = tmp_path / "origin.git"
    assert git("rev-parse", "feat/x", cwd=origin) == feat.git("rev-parse", "HEAD")
    assert feat.git("rev-parse", "--abbrev-ref", "@{upstream}") == "origin/feat/x"
    feat.git("commit", "-q", "--amend", "-m", "rewritten")
    with pytest.raises(Refused, match="imi never forces a push") as refused:
        run("push", feat)
    assert refused.value.code == "not-forward"
    assert git("log", "-1", "--format=%s", "feat/x", cwd=origin) == "new"
    feat.git("config", "branch.feat/x.merge", "refs/heads/other")
    assert run("push", feat).data["to"] == "other", "the branch's own upstream"


def test_update_merges_the_trunk_or_changes_nothing(feat: Repo, shared: Repo) -> None:
    assert run("update", feat).data["updated"] is False
    feat.write("own.txt", "own\n")
    feat.commit("own")
    commit_on_main(shared, "README.md", "trunk\n")
    shared.git("push", "-q", "origin", "main")
    assert run("update", feat).lines[0] == "updated feat/x with 1 commit of origin/main"
    assert (feat.path / "README.md").read_text() == "trunk\n" and feat.git("status", "--porcelain") == ""
    feat.write("README.md", "ours\n")
    feat.commit("ours")
    commit_on_main(shared, "README.md", "theirs\n")
    shared.git("push", "-q", "origin", "main")
    before = (tree_hash(feat.path), feat.git("rev-parse", "HEAD"))
    with pytest.raises(Refused, match="conflicts with feat/x in 1 file") as refused:
        run("update", feat)
    assert refused.value.details == ("README.md",)
    assert (tree_hash(feat.path), feat.git("rev-parse", "HEAD")) == before
    feat.write("README.md", "uncommitted\n")
    with pytest.raises(Refused, match="uncommitted"):
        run("update", feat)


def test_update_fetches_the_trunk_first_and_goes_on_offline(feat: Repo, shared: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    git("clone", "-q", str(tmp_path / "origin.git"), str(other.path), cwd=tmp_path)
    other.write("README.md", "theirs\n")
    other.commit("theirs")
    other.git("push", "-q", "origin", "main")
    action, request = actions.find("update"), Request("update", {"name": "feat-x"})
    assert action is not None
    with Context(str(feat.path)) as context:
        assert action.consequences(context, request) == [
            "fetches origin/main first",
            "feat-x has everything the trunk has",
        ]
    outcome = run("update", feat)
    assert outcome.lines[0] == "updated feat/x with 1 commit of origin/main" and outcome.warnings == []
    assert (feat.path / "README.md").read_text() == "theirs\n"
    (tmp_path / "origin.git").rename(tmp_path / "away.git")
    outcome = run("update", feat)
    assert outcome.lines == ["feat-x has everything the trunk has"]
    assert len(outcome.warnings) == 1 and outcome.warnings[0].startswith("could not fetch (")
    assert "used the local copy of main, last fetched " in outcome.warnings[0]


def test_propose_needs_what_was_pushed(feat: Repo, shared: Repo, tmp_path: Path) -> None:
    feat.write("new.txt", "new\n")
    feat.commit("new")
    with pytest.raises(Refused, match="is not pushed"):
        run("propose", feat)
    run("push", feat)
    with pytest.raises(Refused, match="not a hosted forge"):
        run("propose", feat)
    shared.git("config", "remote.origin.url", "git@github.com:me/app.git")
    assert run("propose", feat).lines == ["https://github.com/me/app/compare/main...feat/x?expand=1"]
    feat.git("commit", "-q", "--allow-empty", "-m", "more")
    with pytest.raises(Refused, match="differs from origin/feat/x"):
        run("propose", feat)


def test_pages_of_forges() -> None:
    gitlab = "https://gitlab.example.com/group/sub/app/-/merge_requests/new"
    query = "merge_request%5Bsource_branch%5D=feat%2Fx%26y&merge_request%5Btarget_branch%5D=main"
    assert proposal_page("https://gitlab.example.com/group/sub/app.git", "main", "feat/x&y") == f"{gitlab}?{query}"
    assert (
        proposal_page("https://github.com/me/app", "main", "a#b")
        == "https://github.com/me/app/compare/main...a%23b?expand=1"
    )
    assert proposal_page("/srv/app.git", "main", "x") is None and proposal_page("", "main", "x") is None


@pytest.mark.parametrize("verb", ["commit", "push", "update"])
def test_a_worktree_of_another_owner_is_left_alone(feat: Repo, shared: Repo, verb: str) -> None:
    imi("claim", "feat-x", "--agent", "claude-1", cwd=shared.path)
    with pytest.raises(Refused, match="claude-1"):
        run(verb, feat, message="no")
