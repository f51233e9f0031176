"""How a person names a pull request, and which project an address belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import branch_problem, name_problem, pull_request_of
from imi_monitor.model.pull_request import MERGE, PULL, PullRequestMention, is_account_name, parse
from imi_monitor.model.remote_address import RemoteAddress, parse_address, with_project

GITHUB = RemoteAddress("github.com", "acme/app")


# S2.40
@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("123", PullRequestMention(123)),
        (" #123 ", PullRequestMention(123)),
        ("!7", PullRequestMention(7, MERGE)),
        ("https://github.com/acme/app/pull/123", PullRequestMention(123, PULL, GITHUB)),
        ("https://github.com/acme/app/pull/123/files?w=1#diff-0", PullRequestMention(123, PULL, GITHUB)),
        (
            "https://git.corp.example:8443/acme/app/pull/5/",
            PullRequestMention(5, PULL, RemoteAddress("git.corp.example", "acme/app")),
        ),
        (
            "https://gitlab.com/g/sub/app/-/merge_requests/7/diffs",
            PullRequestMention(7, MERGE, RemoteAddress("gitlab.com", "g/sub/app")),
        ),
        (
            "https://gitlab.com/g/app/merge_requests/7",
            PullRequestMention(7, MERGE, RemoteAddress("gitlab.com", "g/app")),
        ),
        (
            "https://codeberg.org/acme/app/pulls/9",
            PullRequestMention(9, PULL, RemoteAddress("codeberg.org", "acme/app")),
        ),
        ("alice:fix/login", PullRequestMention(owner="alice", branch="fix/login")),
    ],
)
def test_every_notation_of_a_pull_request(text: str, mention: PullRequestMention) -> None:
    assert parse(text) == mention


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "0",
        "#",
        "#0",
        "1e3",
        "12 3",
        "99999999999999999999",
        "１２３",
        "--force",
        "alice:",
        "alice:-f",
        ":x",
        "alice:a..b",
        "-x:main",
        "../x:main",
        "ext::sh -c id",
        "https://github.com/acme/app",
        "https://[bad/pull/1",
        "https://github.com/acme/app/pull/x",
        "https://github.com/pull/1",
        "ftp://github.com/acme/app/pull/1",
        "file:///acme/app/pull/1",
        "https://github.com/acme/app/pull/1\x1b[31m",
        "https://h:99999999/a/b/pull/1",
    ],
)
def test_invalid_pull_requests_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.sentence.isprintable()


@given(st.text(max_size=200))
def test_any_text_gives_an_answer_or_a_usage_error(text: str) -> None:  # G3, T3
    try:
        mention = parse(text)
    except UsageError as error:
        assert error.sentence.isprintable()
        return
    assert name_problem(mention.directory) is None
    assert mention.number is not None or pull_request_of(mention.directory) is None


def test_directories_and_refs_of_a_pull_request() -> None:
    assert parse("#123").directory == "review-123"
    assert parse("123").refs == ("refs/pull/123/head", "refs/merge-requests/123/head")
    assert parse("!7").refs == ("refs/merge-requests/7/head",)
    assert parse("alice:patch-1").directory == "review-alice-patch-1"
    assert parse("alice:v1.x_lo").directory == "review-alice-v1.x_lo"
    assert parse("alice:fix/lo_gin").directory == "review-alice-fix-lo-gin-xbbc38d11c411"
    assert parse("alice:fix/lo_gin").former_directory == "review-alice-fix-lo-gin"


@pytest.mark.parametrize(
    "mentions",
    [
        ("5", "5:日本", "5:中文", "5:x", "5:5"),
        ("alice:日本", "alice:中文", "alice:x", "alice:é"),
        ("_:日本", "_:中文", "__:日本"),
        ("my-org:fix", "my:org-fix", "my:org/fix", "my.org:fix"),
        ("alice:fix/login", "alice:fix-login", "alice:fix_login", "alice:fix.login", "alice:fix+login"),
        ("alice:" + "long-" * 30 + "a", "alice:" + "long-" * 30 + "b"),
        ("alice:fix/login", "alice:fix-login-x" + "0" * 12, "alice:" + parse("alice:fix/login").directory[13:]),
        ("my-org:fix", "my:" + parse("my-org:fix").directory[10:]),
    ],
)
def test_no_two_reviews_share_a_directory(mentions: tuple[str, ...]) -> None:
    made = [parse(text).directory for text in mentions]
    assert len({name.casefold() for name in made}) == len(made), made
    assert [pull_request_of(name) for name in made] == [parse(text).number for text in mentions]


_ACCOUNT = st.text("ab5-_.A", min_size=1, max_size=6).filter(is_account_name)
_BRANCH = st.text("ab5-/_.x0本A", min_size=1, max_size=20).filter(lambda text: branch_problem(text) is None)


@given(_ACCOUNT, _BRANCH, _ACCOUNT, _BRANCH)
def test_different_branches_of_forks_have_different_directories(one: str, first: str, other: str, second: str) -> None:
    left, right = PullRequestMention(owner=one, branch=first), PullRequestMention(owner=other, branch=second)
    assert (left.directory == right.directory) == (left == right)
    assert name_problem(left.directory) is None and pull_request_of(left.directory) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/app.git",
        "https://user:token@GitHub.com/acme/app",
        "ssh://git@github.com:22/acme/app.git",
        "git@github.com:acme/app.git",
        "github.com:acme/app/",
        "git://github.com/Acme/App.git",
    ],
)
def test_one_project_in_many_notations(url: str) -> None:
    found = parse_address(url)
    assert found is not None and found.is_same_project(GITHUB)


def test_different_projects_are_different() -> None:
    for url in ("https://github.com/acme/other", "https://gitlab.com/acme/app", "/srv/acme/app.git"):
        found = parse_address(url)
        assert found is not None and not found.is_same_project(GITHUB)


@pytest.mark.parametrize(
    ("url", "fork"),
    [
        ("https://github.com/acme/app.git", "https://github.com/alice/app-fork.git"),
        ("https://github.com/acme/app", "https://github.com/alice/app-fork"),
        ("git@github.com:acme/app.git", "git@github.com:alice/app-fork.git"),
        ("ssh://git@host:2222/group/acme/app.git", "ssh://git@host:2222/group/alice/app-fork.git"),
        ("/srv/git/acme/app.git", "/srv/git/alice/app-fork.git"),
        ("app.git", None),
        ("../app.git", None),
        ("host:app.git", None),
    ],
)
def test_the_address_of_a_fork(url: str, fork: str | None) -> None:
    assert with_project(url, "alice", "app-fork") == fork


def test_a_fork_keeps_the_name_when_none_is_given() -> None:
    assert with_project("git@github.com:acme/app.git", "alice") == "git@github.com:alice/app.git"
