"""The call of `gh` and the parsing of its answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.forges import github_cli
from imi_monitor.forges.forge_program import ForgeUnavailable
from imi_monitor.model.errors import GitError
from imi_monitor.model.pull_request import PullRequest, PullRequestMention, parse
from imi_monitor.model.remote_address import parse_address
from tests.forges.fake_gh import ANSWER, FakeGh
from tests.helpers import is_running, wait_for

APP = parse_address("git@github.com:acme/app.git")
WHOLE = PullRequest(
    123,
    "feat: Add authentication",
    "alice",
    "main",
    "feat-add-auth",
    None,
    False,
    False,
    "https://github.com/acme/app/pull/123",
    "OPEN",
)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGh:
    made = FakeGh(tmp_path / "bin")
    monkeypatch.setenv("PATH", made.path)
    return made


def unavailable(mention: str = "123", url: str = "git@github.com:acme/app.git", timeout: float = 20) -> str:
    with pytest.raises(ForgeUnavailable) as caught:
        github_cli.view_pull_request(parse_address(url), parse(mention), timeout=timeout)
    return str(caught.value)


# S2.40
def test_gh_gives_every_detail(fake: FakeGh) -> None:
    fake.answers()
    assert github_cli.view_pull_request(APP, PullRequestMention(123)) == WHOLE
    assert fake.words[:4] == ["pr", "view", "--repo", "github.com/acme/app"]
    assert fake.words[4] == "--json" and fake.words[-2:] == ["--", "123"]


def test_gh_is_asked_outside_the_repository_and_may_not_prompt(fake: FakeGh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_REPO", "evil/evil")
    monkeypatch.setenv("GIT_DIR", "/tmp/evil")
    monkeypatch.setenv("GH_TOKEN", "t0ken")
    fake.answers()
    github_cli.view_pull_request(APP, PullRequestMention(123))
    env = (fake.folder / "env").read_text().splitlines()
    assert (fake.folder / "cwd").read_text() == "/\n"
    assert {"GH_PROMPT_DISABLED=1", "GH_TOKEN=t0ken", "GIT_TERMINAL_PROMPT=0"} <= set(env)
    assert not [line for line in env if line.startswith(("GH_REPO=", "GIT_DIR="))]


def test_gh_names_the_fork_of_a_pull_request(fake: FakeGh) -> None:
    fake.answers(
        isCrossRepository=True,
        maintainerCanModify=True,
        headRepositoryOwner={"login": "bob"},
        headRepository={"name": "app-2"},
    )
    assert github_cli.view_pull_request(APP, PullRequestMention(123)) == replace(
        WHOLE, is_fork=True, can_modify=True, fork=("bob", "app-2")
    )
    fake.answers(isCrossRepository=True, headRepository=None, headRepositoryOwner={"login": ""})
    assert github_cli.view_pull_request(APP, PullRequestMention(123)) == replace(WHOLE, is_fork=True)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("alice:fix/x", "alice:fix/x"),
        ("acme:fix/x", "fix/x"),  # gh knows branches of the repository itself without their owner
        ("ACME:fix/x", "fix/x"),
        ("acme:12", "acme:12"),  # else it would be the pull request 12
    ],
)
def test_by_owner_and_branch(fake: FakeGh, typed: str, asked: str) -> None:
    fake.answers()
    assert github_cli.view_pull_request(APP, parse(typed)).number == 123
    assert fake.words[-2:] == ["--", asked]


@pytest.mark.parametrize("url", ["/srv/acme/app.git", "git@gitlab.com:acme/app.git", "https://h.example/a/b/c.git"])
def test_elsewhere_gh_is_not_asked(fake: FakeGh, url: str) -> None:
    fake.answers()
    assert unavailable(url=url) == "" and not fake.asked.exists()


def test_gh_is_not_asked_about_a_merge_request(fake: FakeGh) -> None:
    fake.answers()
    assert unavailable("!123") == "" and not fake.asked.exists()


def test_without_gh_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unavailable() == ""


def test_a_gh_that_is_not_logged_in_is_reported(fake: FakeGh) -> None:
    fake.not_logged_in()
    assert unavailable() == "gh is not logged in (`gh auth login`)"


def test_the_error_text_of_gh_is_shown_without_secrets(fake: FakeGh) -> None:
    fake.script("printf 'GraphQL: Could not resolve \\033[31m ghp_abcdefghijklmnopqrstuvwxyz0123\\n' >&2; exit 1")
    told = unavailable()
    assert told.startswith("gh failed (GraphQL: Could not resolve \\x1b[31m") and "abcdefgh" not in told


# G5
def test_a_hanging_gh_is_stopped_with_its_children(fake: FakeGh) -> None:
    fake.script(f"sleep 600 & echo $! >{fake.folder}/child; wait")
    started = time.monotonic()
    assert "did not answer within" in unavailable(timeout=0.5) and time.monotonic() - started < 300
    child = int((fake.folder / "child").read_text())
    wait_for(lambda: not is_running(child))


def test_a_running_gh_can_be_cancelled(fake: FakeGh) -> None:
    fake.script("sleep 600")
    with pytest.raises(GitError) as caught:
        github_cli.view_pull_request(APP, PullRequestMention(123), lambda: True)
    assert caught.value.code == "cancelled"


def test_endless_output_of_gh_is_cut(fake: FakeGh) -> None:
    fake.script("yes '{\"number\":123,'")
    assert "gh failed" in unavailable()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"123",
        b"\xff\xfe",
        b"{}",
        b'{"number": "123"}',
        b'{"number": true}',
        b'{"number": 124}',
        b'{"number": -123}',
        b"[" * 100_000,
        b'{"number": 1e400}',
    ],
)
def test_invalid_output_of_gh_is_reported(fake: FakeGh, answer: bytes) -> None:
    fake.says(answer)
    assert unavailable().startswith("gh returned")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(ANSWER)), json_values))
def test_fields_of_any_shape(changes: dict[str, object]) -> None:
    found = github_cli.parse_answer(json.dumps(ANSWER | changes | {"number": 123}).encode(), PullRequestMention(123))
    for value in (found.title, found.author, found.url, found.state, found.head, found.base):
        assert value is None or isinstance(value, str)
    assert found.fork is None or all(isinstance(part, str) and part for part in found.fork)


@pytest.mark.parametrize(
    "name", ["-f", "--upload-pack=x", "a..b", "x\x1b[31m", "a b", "refs/heads/x", "HEAD", "@{-1}", "a\nb"]
)
def test_a_branch_name_that_must_not_reach_git_is_none(name: str) -> None:  # G3
    answer = json.dumps(ANSWER | {"headRefName": name, "baseRefName": name}).encode()
    found = github_cli.parse_answer(answer, PullRequestMention(123))
    assert (found.head, found.base) == (None, None)


@pytest.mark.parametrize("owner", ["-x", "../x", "a/b", "a b", "x:y", "", "x@h", "a\n"])
def test_a_fork_that_is_no_name_is_none(owner: str) -> None:  # G3
    answer = json.dumps(ANSWER | {"isCrossRepository": True, "headRepositoryOwner": {"login": owner}}).encode()
    assert github_cli.parse_answer(answer, PullRequestMention(123)).fork is None


def test_only_an_absolute_path_entry_can_hold_gh(
    fake: FakeGh, path_without_gh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answers()
    monkeypatch.chdir(fake.folder)
    monkeypatch.setenv("PATH", f".:{path_without_gh}")
    assert unavailable() == "" and not fake.asked.exists()
