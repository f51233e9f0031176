"""`imi prs` and what a review offers: from gh, the registry, or refs that were fetched; each says which."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.reviews.review_action import ReviewAction
from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.store import db, pull_requests
from tests.forges.fake_gh import FakeGh
from tests.forges.forge_server import pull
from tests.helpers import Repo, imi
from tests.limits import join


class ListingGh(FakeGh):
    """Lists pull requests."""

    def lists(self, *pulls: dict[str, object]) -> None:
        self.returns({"data": {"repository": {"open": {"totalCount": len(pulls), "nodes": list(pulls)}}}})

    def forget(self) -> None:
        self.asked.unlink(missing_ok=True)


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ListingGh]:
    made = ListingGh(tmp_path / "bin")
    made.not_logged_in()
    monkeypatch.setenv("PATH", made.path)
    yield made


@pytest.fixture
def app(repo: Repo) -> Repo:
    repo.git("remote", "add", "origin", "https://github.com/acme/app.git")
    return repo


def test_the_list_is_asked_for_once_within_a_minute(app: Repo, gh: ListingGh) -> None:
    gh.lists(pull(7, title="Add login"), pull(8, ci="FAILURE", isDraft=True))
    ran = imi("prs", cwd=app.path)
    assert ran.code == 0 and "#8 CI ✗ draft" in ran.out and "#7 CI ✓ approved  Add login" in ran.out
    assert ran.out.splitlines()[-1].startswith("2 open pull requests from gh, ")
    gh.forget()
    data = imi("prs", "--json", cwd=app.path).data
    assert not gh.asked.exists()
    assert (data["source"], data["count"], data["total"], data["project"]) == ("gh", 2, 2, "github.com/acme/app")
    first = data["pull_requests"][1]
    assert (first["number"], first["ci"], first["review"], first["draft"]) == (7, "passed", "approved", False)
    assert data["read_at"] and data["problem"] is None


def test_the_first_answer_that_another_process_waits_for_is_waited_for(
    app: Repo, gh: ListingGh, own_home: Path
) -> None:
    """As when `v` is pressed while the dashboard asks the forge for the first time."""
    project, database = "github.com/acme/app", str(own_home / ".config" / "iMi" / "iMi.db")
    connection = db.connect(database)
    assert db.transact(connection, pull_requests.reserve, project, times.now(), 60)
    with Context(str(app.path)) as context:
        assert ReviewAction().suggestions(context, "pr", ask=False).origin == "asking the forge…"

    def answer() -> None:
        other = db.connect(database)
        pull = PullRequest(7, "Add login", "alice", state="OPEN", head="feat/n7")
        db.transact(other, pull_requests.record, project, "gh", [pull], 1, times.now())
        other.close()

    timer = threading.Timer(0.5, answer)
    timer.start()
    with Context(str(app.path)) as context:
        found = ReviewAction().suggestions(context, "pr", ask=True)
    join(timer)
    assert found.origin.startswith("1 open pull request from gh") and not gh.asked.exists()
    assert [(one.value, one.words) for one in found.offered] == [("7", "feat/n7")], "its branch finds it, too"
    connection.close()


def test_an_answer_that_never_came_is_not_waited_for(app: Repo, gh: ListingGh, own_home: Path) -> None:
    connection = db.connect(str(own_home / ".config" / "iMi" / "iMi.db"))
    asked = times.now() - timedelta(seconds=30)  # the process that asked was killed
    assert db.transact(connection, pull_requests.reserve, "github.com/acme/app", asked, 60)
    with Context(str(app.path)) as context:
        assert ReviewAction().suggestions(context, "pr", ask=True).origin == "the forge was not asked yet"
    connection.close()


def test_cached_asks_nothing(app: Repo, gh: ListingGh) -> None:
    gh.lists(pull(7))
    data = imi("prs", "--cached", "--json", cwd=app.path).data
    assert not gh.asked.exists() and (data["source"], data["pull_requests"], data["read_at"]) == ("git", [], None)


def test_offline_the_last_list_stays_with_the_reason(app: Repo, gh: ListingGh, tmp_path: Path) -> None:
    gh.lists(pull(7))
    imi("prs", cwd=app.path)
    gh.script("echo 'Post \"https://api.github.com/graphql\": dial tcp: lookup api.github.com' >&2; exit 1")
    connection = db.connect(str(tmp_path / "home" / ".config" / "iMi" / "iMi.db"))
    connection.execute("UPDATE forges SET asked_at = '2020-01-01T00:00:00+00:00'")
    connection.commit()
    ran = imi("prs", cwd=app.path)
    assert ran.code == 0 and "#7" in ran.out and "; github.com cannot be reached (for " in ran.out
    assert pull_requests.read_list(connection, "github.com/acme/app").problem == "github.com cannot be reached"
    connection.close()


def test_without_a_login_the_fetched_ones_are_listed(app: Repo, gh: ListingGh) -> None:
    sha = app.git("rev-parse", "HEAD")
    for ref in ("refs/remotes/imi/origin/pull/12", "refs/remotes/imi/origin/merge-requests/3", "refs/pull/5/head"):
        app.git("update-ref", ref, sha)
    app.git("update-ref", "refs/remotes/origin/pull/request", sha)  # a branch of that name
    data = imi("prs", "--json", cwd=app.path).data
    assert [one["number"] for one in data["pull_requests"]] == [12, 5, 3]
    assert (data["source"], data["problem"]) == ("git", "gh is not logged in (`gh auth login`)")
    assert (
        "gh is not logged in (`gh auth login`): 3 pull requests fetched before with git" in imi("prs", cwd=app.path).out
    )


def test_without_a_forge(repo: Repo, gh: ListingGh) -> None:
    ran = imi("prs", cwd=repo.path)
    assert (ran.code, ran.out) == (0, "this repository has no remote on a forge\n") and not gh.asked.exists()


def test_a_review_is_offered_the_list(app: Repo, gh: ListingGh) -> None:
    gh.lists(pull(7, title="Add \x1b[31mlogin"))
    with Context(cwd=str(app.path)) as context:
        known = ReviewAction().suggestions(context, "pr", ask=False)
        assert known is not None and known.offered == [] and not gh.asked.exists()
        found = ReviewAction().suggestions(context, "pr", ask=True)
        assert found is not None
        (offered,) = found.offered
        assert (offered.value, offered.label) == ("7", "#7 CI ✓ approved")
        assert offered.help == "Add \\x1b[31mlogin, by alice"
        assert found.accepts("12") and found.accepts("ana:fix") and not found.accepts("login")


# S2.40
def test_status_shows_the_pull_request_of_a_branch(app: Repo, gh: ListingGh) -> None:
    app.worktree("feat-n7")
    gh.lists(pull(7), pull(8, headRefName="main"))
    imi("prs", cwd=app.path)
    rows = {one["worktree_name"]: one for one in imi("status", "--json", cwd=app.path).data["worktrees"]}
    assert rows["feat-n7"]["pull_request"]["title"] == "Change 7" and rows["feat-n7"]["pr_number"] is None
    assert rows["app"]["pull_request"] is None
    assert "#7 CI ✓ approved" in imi("status", cwd=app.path).out


# S2.42
@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "suggestions go to feat/n7 of this repository"),
        ({"maintainerCanModify": True, "isCrossRepository": True}, "suggestions go to feat/n7 of ana/app"),
        (
            {"isCrossRepository": True},
            "suggestions cannot be pushed: the author does not allow reviewers to push to the fork",
        ),
        ({"isCrossRepository": None}, "whether suggestions can be pushed is known after the fetch"),
    ],
)
def test_where_suggestions_would_go_is_known_before(
    app: Repo, gh: ListingGh, changes: dict[str, object], line: str
) -> None:
    fork = {"headRepository": {"name": "app", "owner": {"login": "ana"}}} if changes.get("isCrossRepository") else {}
    gh.lists(pull(7, **changes, **fork))
    imi("prs", cwd=app.path)
    gh.forget()
    with Context(cwd=str(app.path)) as context:
        lines = ReviewAction().consequences(context, Request("review", {"pr": "7"}))
    assert lines[-2:] == ["#7 CI ✓ approved  Change 7, by alice", line] and not gh.asked.exists()
