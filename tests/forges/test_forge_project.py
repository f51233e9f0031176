"""What the real `gh` and `glab` list of a server on this machine, and each way in which they fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.forges import forge_project, github_cli, gitlab_cli
from imi_monitor.forges.forge_program import LIMITED, LOGIN, MISSING, OFFLINE, ForgeUnavailable
from imi_monitor.forges.forge_project import ForgeProject
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import branch_problem
from imi_monitor.model.pull_request import PullRequest, parse
from imi_monitor.model.remote_address import RemoteAddress
from tests.forges.fake_gh import FakeGh
from tests.forges.forge_server import REAL_GH, REAL_GLAB, SHA, ForgeServer, link_program, merge_request, pull, run_forge
from tests.helpers import Repo

APP = ForgeProject(RemoteAddress("github.com", "acme/app"), frozenset(("acme/app",)))
CORP = ForgeProject(RemoteAddress("git.corp.example", "acme/app"), frozenset(("acme/app",)))
GITLAB = ForgeProject(RemoteAddress("gitlab.example", "group/sub/app"), frozenset())


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    """The real `gh`, logged in to github.com, which is the server."""
    if REAL_GH is None:
        pytest.skip("gh is not installed")
    monkeypatch.setenv("PATH", link_program(tmp_path / "programs", REAL_GH), prepend=":")
    with run_forge(tmp_path) as (server, _):
        monkeypatch.setenv("GH_CONFIG_DIR", str(server.write_gh_config()))
        monkeypatch.setenv("GH_TOKEN", "t0ken")
        yield server


def unavailable(project: ForgeProject = APP) -> ForgeUnavailable:
    with pytest.raises(ForgeUnavailable) as caught:
        forge_project.ask(project)
    return caught.value


def test_one_request_lists_open_and_closed_pull_requests_and_those_with_a_worktree(forge: ForgeServer) -> None:
    fork = {"name": "app-2", "owner": {"login": "bob"}}
    forge.pulls = [
        pull(3, ci="FAILURE", reviewDecision="CHANGES_REQUESTED", isDraft=True),
        pull(2, state="MERGED", mergeCommit={"oid": "b" * 40}, ci=None, reviewDecision=None),
        pull(1, isCrossRepository=True, headRepository=fork, maintainerCanModify=True, ci="PENDING"),
    ]
    answer = forge_project.ask(APP, [1, 9])
    assert (answer.via, answer.total, [one.number for one in answer.pulls]) == ("gh", 2, [3, 2, 1])
    third, second, first = answer.pulls
    assert third == PullRequest(
        3,
        "Change 3",
        "alice",
        "main",
        "feat/n3",
        None,
        False,
        False,
        "https://github.com/acme/app/pull/3",
        "OPEN",
        True,
        "failed",
        "changes",
        SHA,
        None,
        "2026-11-19T10:00:00Z",
    )
    assert (second.state, second.landed, second.ci, second.review) == ("MERGED", "b" * 40, "none", None)
    assert (first.fork, first.is_fork, first.can_modify, first.ci) == (("bob", "app-2"), True, True, "pending")
    assert len(forge.requests) == 1 and forge.requests[0][:2] == ("api.github.com", "token t0ken")


def test_an_enterprise_host_is_asked_with_its_own_token(forge: ForgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "c0rp")
    forge.pulls = [pull(1)]
    assert forge_project.ask(CORP).pulls[0].number == 1
    assert forge.requests[0][:2] == ("git.corp.example", "token c0rp")


def test_not_logged_in(forge: ForgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    problem = unavailable()
    assert (str(problem), problem.code) == ("gh is not logged in (`gh auth login`)", LOGIN)
    assert forge.requests == []


def test_a_token_that_the_server_refuses(forge: ForgeServer) -> None:
    forge.fails = (401, "Bad credentials")
    assert unavailable().code == LOGIN
    problem = unavailable(CORP)
    assert problem.code == LOGIN
    assert str(problem) == "gh is not logged in to git.corp.example (`gh auth login --hostname git.corp.example`)"


@pytest.mark.parametrize("status", [200, 403, 429])
def test_a_rate_limit(forge: ForgeServer, status: int) -> None:
    forge.fails = (status, "API rate limit exceeded for user ID 1.")
    if status == 200:
        forge.fails, forge.errors = None, [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]
        forge.answer = lambda _query, _given: {"data": None, "errors": forge.errors}  # type: ignore[method-assign]
    problem = unavailable()
    assert (str(problem), problem.code) == ("the rate limit of github.com is used up", LIMITED)


def test_offline(forge: ForgeServer) -> None:
    (forge.folder / "socket").unlink()
    problem = unavailable()
    assert (str(problem), problem.code) == ("github.com cannot be reached", OFFLINE)


def test_a_slow_server_is_given_up(forge: ForgeServer) -> None:
    forge.hold.clear()
    started = time.monotonic()
    with pytest.raises(ForgeUnavailable) as caught:
        github_cli.list_pull_requests(APP.address, timeout=0.5)
    assert str(caught.value) == "gh did not answer within 0.5 s" and time.monotonic() - started < 60


def test_a_request_can_be_cancelled(forge: ForgeServer) -> None:
    forge.hold.clear()
    with pytest.raises(GitError, match="cancelled"):
        forge_project.ask(APP, (), lambda: bool(forge.requests))


def test_a_repository_that_the_forge_does_not_have(forge: ForgeServer) -> None:
    forge.answer = lambda _query, _given: {  # type: ignore[method-assign]
        "data": {"repository": None},
        "errors": [{"message": "Could not resolve to a Repository with the name 'acme/app'."}],
    }
    assert str(unavailable()) == "gh failed (Could not resolve to a Repository with the name 'acme/app'.)"


def test_hostile_texts_of_a_forge(forge: ForgeServer) -> None:
    """Names that could become options, addresses that are none and secrets do not leave the answer."""
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    forge.pulls = [
        pull(
            1,
            headRefName="--upload-pack=evil",
            url="javascript:alert(1)",
            headRefOid="--",
            title=f"x {secret} \x1b[31m",
        ),
        pull(2) | {"number": "2; rm -rf /"},
        pull(3, isCrossRepository=True, headRepository={"name": "..", "owner": {"login": "-x"}}, title="y" * 5000),
    ]
    third, first = forge_project.ask(APP).pulls
    assert (first.head, first.url, first.sha) == (None, None, None) and secret not in (first.title or "")
    assert third.fork is None and len(third.title or "") == 300


def test_a_host_of_neither_program(forge: ForgeServer) -> None:
    assert "can list" in str(unavailable(ForgeProject(RemoteAddress("h.example", "solo"), frozenset())))


def test_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (str(unavailable()), unavailable().code) == ("gh is not installed", MISSING)
    assert str(unavailable(GITLAB)) == "glab is not installed"
    assert str(unavailable(CORP)) == "gh is not installed"


# S2.40
def test_a_pull_request_of_a_review_from_the_real_gh(forge: ForgeServer) -> None:
    """By its number, and by the branch of its author; one that does not exist is one sentence."""
    fork = {"name": "app-2", "owner": {"login": "bob"}}
    forge.pulls = [
        pull(3, title="Tidy\x1b[31m the cart", isCrossRepository=True, headRepository=fork, headRefName="tidy")
    ]
    for mention in ("3", "bob:tidy"):
        found = github_cli.view_pull_request(APP.address, parse(mention))
        assert (found.number, found.author, found.head, found.fork) == (3, "alice", "tidy", ("bob", "app-2"))
        assert "\x1b" not in str(found.title)
    with pytest.raises(ForgeUnavailable, match="Could not resolve to a PullRequest with the number of 9"):
        github_cli.view_pull_request(APP.address, parse("9"))


# -- GitLab -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def glab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    """The real `glab`, logged in to gitlab.example, which is the server."""
    if REAL_GLAB is None:
        pytest.skip("glab is not installed")
    monkeypatch.setenv("PATH", link_program(tmp_path / "programs", REAL_GLAB), prepend=":")
    with run_forge(tmp_path, tcp=True) as (server, port):
        monkeypatch.setenv("GLAB_CONFIG_DIR", str(server.write_glab_config("gitlab.example", port)))
        yield server


def test_merge_requests_from_the_real_glab(glab: ForgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "NO_PROMPT",
        "DEBUG",
        "GLAMOUR_STYLE",
    ):  # glab prints something in front of its answer for each of them
        monkeypatch.setenv(name, "1")
    glab.merge_requests = [merge_request(3), merge_request(2, state="merged", mergeCommitSha="c" * 40)]
    answer = forge_project.ask(GITLAB, [3])
    assert (answer.via, answer.total, [one.number for one in answer.pulls]) == ("glab", 1, [3, 2])
    assert len(glab.requests) == 1 and glab.requests[0][1] == "t0ken"


def test_failures_of_the_real_glab(glab: ForgeServer) -> None:
    glab.fails = (401, "401 Unauthorized")
    assert unavailable(GITLAB).code == LOGIN
    glab.fails = (429, "Retry later")
    assert unavailable(GITLAB).code == LIMITED


class FakeGlab(FakeGh):
    program = "glab"


@pytest.fixture
def fake_glab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGlab:
    made = FakeGlab(tmp_path / "bin")
    monkeypatch.setenv("PATH", made.path)
    return made


def listed(fake: FakeGlab, *found: dict[str, object]) -> tuple[PullRequest, ...]:
    fake.returns({"data": {"project": {"open": {"count": len(found), "nodes": list(found)}}}})
    return forge_project.ask(GITLAB, [7]).pulls


def test_merge_requests(fake_glab: FakeGlab) -> None:
    own = merge_request(7, sourceProject={"fullPath": "group/sub/app"}, headPipeline={"status": "RUNNING"})
    other = merge_request(6, approved=False, headPipeline=None, draft=True)
    first, second = listed(fake_glab, other, own)
    assert (first.number, first.is_fork, first.ci, first.review, first.state) == (
        7,
        False,
        "pending",
        "approved",
        "OPEN",
    )
    assert (second.fork, second.ci, second.review, second.draft) == (("acme", "app"), "none", "needed", True)
    words = fake_glab.words
    assert words[:4] == ["api", "graphql", "--hostname", "gitlab.example"] and "path=group/sub/app" in words
    assert 'iids: ["7"]' in words[5]


def test_no_former_name_of_a_setting_makes_glab_warn_in_its_answer(
    fake_glab: FakeGlab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROMPT", "PROMPT_DISABLED", "GLAMOUR_STYLE", "DEBUG"):
        monkeypatch.setenv(name, "1")
    assert listed(fake_glab, merge_request(7))
    given = {line.partition("=")[0] for line in (fake_glab.folder / "env").read_text().splitlines()}
    assert "GLAB_NO_PROMPT" in given
    assert given.isdisjoint({"NO_PROMPT", "PROMPT_DISABLED", "GLAMOUR_STYLE", "DEBUG"})


def test_a_merge_request_that_needs_no_approval_is_not_called_approved(fake_glab: FakeGlab) -> None:
    (found,) = listed(fake_glab, merge_request(1, approvedBy={"nodes": []}))
    assert found.review is None


def test_one_merge_request_for_a_review(fake_glab: FakeGlab) -> None:
    fake_glab.returns({"data": {"project": {"named": {"nodes": [merge_request(7)]}}}})
    assert forge_project.view(GITLAB.address, parse("!7")).title == "Change 7"
    with pytest.raises(ForgeUnavailable, match="no merge request 8"):
        forge_project.view(GITLAB.address, parse("8"))


def test_a_project_that_gitlab_does_not_show(fake_glab: FakeGlab) -> None:
    fake_glab.returns({"data": {"project": None}})
    assert str(unavailable(GITLAB)) == "glab failed (it sees no project group/sub/app)"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(tuple(pull(1))), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_any_answer_is_parsed_or_refused(tree: object) -> None:
    answer = json.dumps({"data": {"repository": {"open": {"nodes": [tree]}, "closed": tree}}}).encode()
    for one in github_cli.parse_list(answer, "github.com", [1])[0]:
        assert one.number and (one.head is None or branch_problem(one.head) is None)


# -- the project of a repository --------------------------------------------------------------------------------------


def project(repo: Repo) -> ForgeProject | None:
    place = layout.discover(str(repo.path))
    assert place is not None
    return forge_project.forge_project(place.repository, "origin")


def test_the_project_is_upstreams_if_there_is_one(repo: Repo) -> None:
    assert project(repo) is None
    repo.git("remote", "add", "origin", "git@github.com:Me/App.git")
    assert project(repo) == ForgeProject(RemoteAddress("github.com", "Me/App"), frozenset(("me/app",)))
    repo.git("remote", "add", "upstream", "https://github.com/acme/app")
    found = project(repo)
    assert found is not None and (found.key, found.own) == ("github.com/acme/app", {"acme/app", "me/app"})


def test_a_remote_on_this_disk_has_no_forge(repo: Repo, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    assert project(repo) is None
    assert gitlab_cli.may_have(RemoteAddress("", "a/b")) is False
