"""`imi review` on real repositories, with and without a `gh` that answers."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
from pathlib import Path

import pytest

from imi_monitor.actions.context import Context
from imi_monitor.model.advice import on_dashboard
from imi_monitor.model.pull_request import parse
from imi_monitor.store import claims, db, events, worktrees
from tests.actions.forge import Forge
from tests.actions.removal_kit import act
from tests.forges.fake_gh import FakeGh
from tests.helpers import ROOT, Ran, Repo, git, imi, imi_argv, tree_hash
from tests.limits import LIMIT, join


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forge to copy from: creating one takes two seconds."""
    root = tmp_path_factory.mktemp("pattern")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(root / "gitconfig"))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        (root / "gitconfig").write_text("[user]\n\tname = Test\n\temail = test@example.invalid\n")
        Forge.create(root)
    return root


@pytest.fixture
def forge(tmp_path: Path, pattern: Path) -> Forge:
    return Forge.copy(pattern, tmp_path)


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGh:
    """A `gh` in front of everything else; until told otherwise it is not logged in."""
    made = FakeGh(tmp_path / "bin")
    made.not_logged_in()
    monkeypatch.setenv("PATH", made.path)
    return made


def registry(tmp_path: Path) -> sqlite3.Connection:
    return db.connect(str(tmp_path / "home" / ".config" / "iMi" / "iMi.db"))


def kinds(tmp_path: Path) -> list[tuple[str, str | None]]:
    connection = registry(tmp_path)
    found = [(event.type, event.worktree_name) for event in events.list_events(connection)]
    connection.close()
    return found


def config(repo: Repo, branch: str) -> dict[str, str]:
    text = repo.git("config", "--local", "--get-regexp", rf"^branch\.{branch}\.", check=False)
    return dict(line.removeprefix(f"branch.{branch}.").split(" ", 1) for line in text.splitlines())


def review(forge: Forge, what: str = "123", *more: str, cwd: Path | None = None) -> dict[str, object]:
    ran = imi("--json", "review", what, *more, cwd=cwd or forge.app.path)
    assert ran.code == 0, ran
    data: dict[str, object] = ran.data
    return data


def refused(forge: Forge, what: str = "123", *more: str, cwd: Path | None = None) -> Ran:
    ran = imi("review", what, *more, cwd=cwd or forge.app.path)
    assert ran.code != 0 and ran.err and ran.out == ""
    return ran


def place(forge: Forge, name: str = "review-123") -> Repo:
    return Repo(forge.app.path.parent / "app.worktrees" / name)


# --- plain git -------------------------------------------------------------------------------------------------------


# S2.40, S2.41
def test_a_review_by_number_with_plain_git(forge: Forge, tmp_path: Path) -> None:
    ran = imi("review", "123", cwd=forge.app.path)
    made = place(forge)
    assert ran.code == 0 and ran.out.splitlines()[-1] == str(made.path)
    assert made.git("rev-parse", "HEAD") == forge.at("feat-add-auth")
    assert made.git("branch", "--show-current") == "feat-add-auth"
    assert made.git("rev-parse", "--abbrev-ref", "@{u}") == "origin/feat-add-auth"
    assert made.git("status", "--porcelain") == ""
    connection = registry(tmp_path)
    row = worktrees.get(connection, "app", "review-123")
    assert row is not None
    assert (row.type, row.pr_number, row.branch, row.path) == ("review", 123, "feat-add-auth", str(made.path))
    connection.close()
    assert kinds(tmp_path) == [("worktree.created", "review-123")]


def test_the_dashboard_says_which_key_pushes_suggestions(forge: Forge) -> None:
    outcome = act("review", cwd=forge.app.path, pr="123")
    assert outcome.lines[-1] == "send suggestions back: git push"
    assert on_dashboard(outcome.lines[-1]) == "suggestions go to feat-add-auth: P pushes them"


# S2.42: suggestion commits go back with a plain `git push`
def test_suggestions_are_pushed_to_the_same_repository(forge: Forge) -> None:
    data = review(forge)
    made = place(forge)
    made.write("suggestion.txt", "x\n")
    sha = made.commit("suggestion")
    assert data["push"] == "git push"
    made.git("push", "-q")
    assert forge.at("feat-add-auth") == sha


@pytest.mark.parametrize(
    "what", ["#123", "https://github.com/acme/app/pull/123", "https://github.com/ACME/App/pull/123/files"]
)
def test_a_pull_request_is_found_by_every_spelling(forge: Forge, what: str) -> None:
    assert review(forge, what)["worktree_name"] == "review-123"


@pytest.mark.parametrize("what", ["7", "!7"])
def test_merge_requests(forge: Forge, what: str) -> None:
    data = review(forge, what)
    assert (data["worktree_name"], data["pr_number"], data["branch"]) == ("review-7", 7, "pr/7")
    assert data["push"] is None  # nothing tells where it comes from
    made = place(forge, "review-7")
    assert config(forge.app, "pr/7") == {"remote": "origin", "merge": "refs/merge-requests/7/head"}
    sha = forge.propose(None, "mr-branch", start="mr-branch")
    forge.push_ref("refs/merge-requests/7/head", sha)
    made.git("pull", "-q", "--ff-only")
    assert made.git("rev-parse", "HEAD") == sha


def test_a_gitlab_page(forge: Forge) -> None:
    git("config", "--global", f"url.{forge.root}/.insteadOf", "git@gitlab.com:", "^git@gitlab", cwd=forge.app.path)
    forge.app.git("remote", "set-url", "origin", "git@gitlab.com:acme/app.git")
    data = review(forge, "https://gitlab.com/acme/app/-/merge_requests/7/diffs")
    assert data["worktree_name"] == "review-7"


def test_a_fork_without_gh_is_read_only(forge: Forge) -> None:
    data = review(forge, "124")
    assert (data["branch"], data["push"], data["head"]) == ("pr/124", None, None)
    assert place(forge, "review-124").git("rev-parse", "HEAD") == forge.at("fix/typo", "alice/app-fork")


def test_by_owner_and_branch_without_gh(forge: Forge) -> None:
    forge.work.git("push", "-q", "https://github.com/alice/app.git", "fix/typo")
    data = review(forge, "alice:fix/typo")
    made = place(forge, parse("alice:fix/typo").directory)
    assert (data["pr_number"], data["worktree_path"], data["branch"]) == (None, str(made.path), "fix/typo")
    made.write("suggestion.txt", "x\n")
    sha = made.commit("suggestion")
    made.git("push", "-q")
    assert forge.at("fix/typo", "alice/app") == sha
    assert review(forge, "alice:fix/typo")["created"] is False


def test_branches_without_ascii_letters_have_worktrees_of_their_own(forge: Forge) -> None:
    forge.app.git("remote", "add", "123", "https://github.com/alice/app-fork.git")
    for branch in ("日本", "中文"):
        forge.work.git("push", "-q", "https://github.com/alice/app-fork.git", f"fix/typo:refs/heads/{branch}")
    made = [review(forge, text) for text in ("123:日本", "123:中文", "123")]
    assert len({data["worktree_path"] for data in made}) == 3
    assert [data["pr_number"] for data in made] == [None, None, 123]
    assert all(data["created"] for data in made)
    assert [review(forge, text)["created"] for text in ("123:日本", "123:中文", "123")] == [False] * 3


def test_a_worktree_with_a_name_of_earlier_versions_is_found_by_the_branch_it_tracks(forge: Forge) -> None:
    url = "https://github.com/alice/app.git"
    forge.work.git("push", "-q", url, "fix/typo", "fix/typo:fix-typo")
    forge.app.git("fetch", "-q", url, "fix/typo:fix/typo")
    forge.app.git("config", "branch.fix/typo.remote", url)
    forge.app.git("config", "branch.fix/typo.merge", "refs/heads/fix/typo")
    older = forge.app.path.parent / "review-alice-fix-typo"
    forge.app.git("worktree", "add", "-q", str(older), "fix/typo")
    data = review(forge, "alice:fix/typo")
    assert (data["created"], data["worktree_path"]) == (False, str(older))
    assert "which is not the pull request's" in refused(forge, "alice:fix-typo").err


def test_by_owner_with_a_remote_of_that_owner(forge: Forge) -> None:
    forge.app.git("remote", "add", "friend", "https://github.com/alice/app-fork.git")
    review(forge, "alice:fix/typo")
    assert config(forge.app, "fix/typo")["remote"] == "friend"


def test_what_was_fetched_counts_as_published(forge: Forge) -> None:
    """Else every review of a fork would be refused by `imi remove` as unpushed work."""
    review(forge, "124")
    assert place(forge, "review-124").git("rev-list", "HEAD", "--not", "--remotes") == ""
    forge.app.git("fetch", "-q", "--prune", "origin")
    assert place(forge, "review-124").git("rev-list", "HEAD", "--not", "--remotes") == ""


def test_nothing_else_is_fetched_and_nothing_local_moves(forge: Forge) -> None:
    forge.app.git("config", "--replace-all", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
    before = forge.app.git("for-each-ref", "refs/heads")
    forge.propose(None, "unrelated", to="acme/app")
    review(forge, "124")
    after = forge.app.git("for-each-ref", "refs/heads")
    assert [line for line in after.splitlines() if "pr/124" not in line] == before.splitlines()
    assert forge.app.git("tag") == "" and not (forge.app.path / ".git" / "FETCH_HEAD").exists()


def test_pull_requests_of_a_fork_live_upstream(forge: Forge) -> None:
    forge.app.git("remote", "rename", "origin", "upstream")
    forge.app.git("remote", "add", "origin", "https://github.com/alice/app.git")
    review(forge)
    assert config(forge.app, "feat-add-auth")["remote"] == "upstream"


# --- with gh ---------------------------------------------------------------------------------------------------------


def test_gh_tells_title_and_author(forge: Forge, gh: FakeGh, tmp_path: Path) -> None:
    gh.answers(title="feat: \x1b[31mAdd\x07 \u202eauth", state="MERGED")
    ran = imi("review", "123", cwd=forge.app.path)
    first = ran.out.splitlines()[0]
    assert first == "pull request 123: feat: \\x1b[31mAdd\\x07 \\u202eauth (alice, into main, merged)"
    assert gh.words[3] == "github.com/acme/app"
    connection = registry(tmp_path)
    row, event = worktrees.get(connection, "app", "review-123"), events.list_events(connection)[-1]
    assert row is not None and (row.base_branch, row.pr_number) == ("main", 123)
    assert '"author": "alice"' in event.data and '"pr_number": 123' in event.data and "\x1b" not in event.data
    connection.close()
    assert imi("--json", "review", "123", cwd=forge.app.path).data["title"] == "feat: \x1b[31mAdd\x07 \u202eauth"


# S2.42: fork pull requests can be pushed back to where git allows it
def test_a_fork_that_may_be_pushed_to(forge: Forge, gh: FakeGh) -> None:
    fork = {
        "headRepositoryOwner": {"login": "alice"},
        "headRepository": {"name": "app-fork"},
        "headRefName": "fix/typo",
    }
    gh.answers(number=124, isCrossRepository=True, maintainerCanModify=True, **fork)
    data = review(forge, "124")
    made = place(forge, "review-124")
    assert (data["branch"], data["push"], data["fork"]) == ("fix/typo", "git push", "alice/app-fork")
    url = "https://github.com/alice/app-fork.git"
    assert config(forge.app, "fix/typo") == {"remote": url, "merge": "refs/heads/fix/typo", "pushremote": url}
    made.write("suggestion.txt", "x\n")
    sha = made.commit("suggestion")
    made.git("push", "-q")
    assert forge.at("fix/typo", "alice/app-fork") == sha
    assert git("for-each-ref", "refs/heads/fix", cwd=forge.bare()) == ""


def test_a_fork_that_may_not_be_pushed_to(forge: Forge, gh: FakeGh) -> None:
    fork = {
        "headRepositoryOwner": {"login": "alice"},
        "headRepository": {"name": "app-fork"},
        "headRefName": "fix/typo",
    }
    gh.answers(number=124, isCrossRepository=True, maintainerCanModify=False, **fork)
    data = review(forge, "124")
    assert (data["branch"], data["push"]) == ("fix/typo", None)
    assert config(forge.app, "fix/typo") == {"remote": "origin", "merge": "refs/pull/124/head"}


def test_a_fork_on_main_never_touches_our_main(forge: Forge, gh: FakeGh) -> None:
    forge.app.git("switch", "-q", "--detach")
    forge.app.git("branch", "-q", "-D", "main")  # so that the name itself is free
    forge.propose(125, "theirs")
    gh.answers(
        number=125,
        isCrossRepository=True,
        maintainerCanModify=True,
        headRefName="main",
        headRepositoryOwner={"login": "alice"},
        headRepository={"name": "app"},
    )
    data = review(forge, "125")
    assert data["branch"] == "pr/125" and data["push"] == "git push https://github.com/alice/app.git HEAD:main"
    assert forge.app.git("branch", "--list", "main") == ""


def test_owner_and_branch_with_gh_finds_the_number(forge: Forge, gh: FakeGh) -> None:
    gh.answers()
    assert review(forge, "acme:feat-add-auth")["worktree_name"] == "review-123"
    assert gh.words[-1] == "feat-add-auth"


@pytest.mark.parametrize("trouble", ["not logged in", "garbage", "fails", "hostile branch"])
def test_without_a_useful_answer_plain_git_does_it(forge: Forge, gh: FakeGh, trouble: str) -> None:
    if trouble == "garbage":
        gh.says(b"\x00\xff{]")
    elif trouble == "fails":
        gh.script("echo 'HTTP 502' >&2; exit 1")
    elif trouble == "hostile branch":
        gh.answers(headRefName="--upload-pack=touch /tmp/pwned", isCrossRepository=True)
    ran = imi("--json", "review", "123", cwd=forge.app.path)
    assert ran.code == 0 and place(forge).git("rev-parse", "HEAD") == forge.at("feat-add-auth")
    if trouble == "hostile branch":
        assert ran.data["branch"] == "pr/123"
    else:
        assert "title, author and fork are unknown" in ran.data["warnings"][0]


# --- again: forward only ---------------------------------------------------------------------------------------------


def test_reviewing_again_fast_forwards_the_worktree(forge: Forge, tmp_path: Path) -> None:
    review(forge)
    assert review(forge)["updated"] == 0
    sha = forge.more(123, "feat-add-auth")
    data = review(forge)
    made = place(forge)
    assert (data["created"], data["updated"]) == (False, 1)
    assert made.git("rev-parse", "HEAD") == sha and (made.path / "more.txt").exists()
    assert made.git("status", "--porcelain", "--branch") == "## feat-add-auth...origin/feat-add-auth"
    assert kinds(tmp_path) == [("worktree.created", "review-123"), ("worktree.updated", "review-123")]


def test_own_suggestions_stay_while_the_pull_request_is_unchanged(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    made.write("suggestion.txt", "x\n")
    sha = made.commit("suggestion")
    data = review(forge)
    assert (data["ahead"], data["updated"]) == (1, 0) and made.git("rev-parse", "HEAD") == sha


def test_a_diverged_review_is_left_alone_with_both_counts(forge: Forge, tmp_path: Path) -> None:
    review(forge)
    made = place(forge)
    for number in range(2):
        made.write("suggestion.txt", f"{number}\n")
        made.commit("suggestion")
    forge.more(123, "feat-add-auth")
    before = tree_hash(made.path)
    ran = refused(forge)
    assert "2 commits of its own" in ran.err and "1 new one" in ran.err and str(made.path) in ran.err
    assert tree_hash(made.path) == before and made.git("status", "--porcelain") == ""
    answer = imi("--json", "review", "123", cwd=forge.app.path).json
    assert (answer["code"], answer["data"]["ahead"], answer["data"]["behind"]) == ("diverged", 2, 1)
    assert answer["data"]["worktree_path"] == str(made.path)
    assert kinds(tmp_path) == [("worktree.created", "review-123")]


def test_a_rewritten_pull_request_is_left_alone_too(forge: Forge) -> None:
    review(forge)
    before = place(forge).git("rev-parse", "HEAD")
    forge.propose(123, "feat-add-auth", to="acme/app")
    assert "1 commit of its own" in refused(forge).err
    assert place(forge).git("rev-parse", "HEAD") == before


@pytest.mark.parametrize("state", ["changed", "staged", "untracked", "ignored"])
def test_files_in_the_way_are_named_and_kept(forge: Forge, state: str) -> None:
    review(forge)
    made = place(forge)
    name = {"untracked": "new.txt", "ignored": ".env"}.get(state, "feat-add-auth.txt")
    forge.work.git("switch", "-q", "feat-add-auth")
    forge.work.write(name, "from the author\n")
    forge.work.git("add", "-f", name)
    sha = forge.add_commit("other.txt")
    forge.work.git("push", "-q", "https://github.com/acme/app.git", "feat-add-auth")
    forge.push_ref("refs/pull/123/head", sha)
    made.write(name, "mine\n")
    if state == "staged":
        made.git("add", name)
    before = tree_hash(made.path)
    ran = refused(forge)
    assert name in ran.err and tree_hash(made.path) == before
    if state != "ignored":
        assert "1 uncommitted file is in the way" in ran.err


def test_other_changes_are_not_in_the_way(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    made.write("README.md", "mine\n")
    made.write("scratch", "mine\n")
    sha = forge.more(123, "feat-add-auth")
    assert review(forge)["updated"] == 1
    assert made.git("rev-parse", "HEAD") == sha and (made.path / "README.md").read_text() == "mine\n"


def test_a_review_claimed_by_another_agent_is_not_updated(forge: Forge, tmp_path: Path) -> None:
    from imi_monitor import host

    review(forge)
    connection = registry(tmp_path)
    wanted = claims.ClaimRequest("claude-1", host.identify_process(os.getpid()))
    db.transact(connection, claims.grant, "app", "review-123", wanted)
    connection.close()
    assert review(forge)["updated"] == 0  # looking is fine
    forge.more(123, "feat-add-auth")
    assert "claude-1" in refused(forge).err
    assert review(forge, "123", "--agent", "claude-1")["updated"] == 1


def test_a_branch_that_was_switched_is_not_merged_into(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    made.git("switch", "-q", "-c", "mine", "main")
    forge.more(123, "feat-add-auth")
    ran = refused(forge)
    assert "mine checked out" in ran.err and "git switch feat-add-auth" in ran.err
    made.git("switch", "-q", "--detach")
    assert "detached" in refused(forge).err
    made.git("switch", "-q", "feat-add-auth")
    assert review(forge)["updated"] == 1


def test_a_review_with_an_operation_in_progress_is_not_updated(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    forge.more(123, "feat-add-auth")
    made.git("bisect", "start")
    assert "bisect is in progress" in refused(forge).err


def test_offline_a_review_stays_as_it_is(forge: Forge) -> None:
    review(forge)
    forge.bare().rename(forge.root / "away")
    ran = refused(forge)
    assert "review-123 stays as it is" in ran.err and str(place(forge).path) in ran.err
    answer = imi("--json", "review", "123", cwd=forge.app.path).json
    assert (answer["code"], answer["data"]["worktree_name"]) == ("offline", "review-123")
    assert "review-124" not in refused(forge, "124").err


@pytest.mark.parametrize("name", ["pr-123", "pr-review-123"])
def test_worktrees_of_imi_are_found(forge: Forge, tmp_path: Path, name: str) -> None:
    forge.app.git("worktree", "add", "-q", "-b", "feat-add-auth", str(tmp_path / name), "origin/main")
    data = review(forge)
    assert (data["worktree_name"], data["created"], data["updated"]) == (name, False, 1)
    assert git("rev-parse", "HEAD", cwd=tmp_path / name) == forge.at("feat-add-auth")
    connection = registry(tmp_path)
    row = worktrees.get(connection, "app", name)
    assert row is not None and (row.pr_number, row.type) == (123, "review")
    connection.close()


def test_a_row_of_imi_keeps_its_type(forge: Forge, tmp_path: Path) -> None:
    path = str(tmp_path / "pr-123")
    forge.app.git("worktree", "add", "-q", "-b", "auth", path, "origin/main")
    with Context(str(forge.app.path)) as context:
        name = context.register(context.repository())
    connection = registry(tmp_path)
    db.transact(connection, worktrees.register, name, "pr-123", branch="refs/heads/auth", kind="pr", path=path)
    assert review(forge)["updated"] == 1
    row = worktrees.get(connection, name, "pr-123")
    assert row is not None and (row.type, row.pr_number, row.branch) == ("pr", 123, "auth")
    connection.close()


# --- branches are never reset ----------------------------------------------------------------------------------------


def test_a_branch_with_other_work_is_left_alone(forge: Forge) -> None:
    forge.app.git("branch", "feat-add-auth", "main")
    before = forge.app.git("rev-parse", "feat-add-auth")
    data = review(forge)
    assert data["branch"] == "pr/123" and "is another branch here" in str(data["message"])
    assert forge.app.git("rev-parse", "feat-add-auth") == before
    assert data["push"] == "git push origin HEAD:feat-add-auth"


def test_a_branch_that_stands_at_the_same_commit_is_taken_as_it_is(forge: Forge) -> None:
    forge.app.git("fetch", "-q")
    forge.app.git("branch", "-q", "--no-track", "feat-add-auth", "origin/feat-add-auth")
    forge.app.git("config", "branch.feat-add-auth.remote", "elsewhere")
    data = review(forge)
    assert data["branch"] == "feat-add-auth" and config(forge.app, "feat-add-auth") == {"remote": "elsewhere"}


def test_a_branch_of_an_earlier_review_goes_on(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    forge.app.git("worktree", "remove", str(made.path))
    sha = forge.more(123, "feat-add-auth")
    data = review(forge)
    assert data["branch"] == "feat-add-auth" and made.git("rev-parse", "HEAD") == sha


def test_own_suggestions_of_an_earlier_review_come_back(forge: Forge) -> None:
    review(forge)
    made = place(forge)
    made.write("suggestion.txt", "x\n")
    sha = made.commit("suggestion")
    forge.app.git("worktree", "remove", str(made.path))
    ran = imi("--json", "review", "123", cwd=forge.app.path)
    assert made.git("rev-parse", "HEAD") == sha and "1 local commit not yet in" in ran.data["warnings"][0]
    made.git("push", "-q")


def test_after_remove_the_same_branch_is_found_again(forge: Forge) -> None:
    for name in ("feat-add-auth", "feat-add-auth"):
        assert review(forge)["branch"] == name
        assert imi("remove", "review-123", cwd=forge.app.path).code == 0
    for _ in range(2):
        assert review(forge, "7")["branch"] == "pr/7"
        assert imi("remove", "review-7", cwd=forge.app.path).code == 0
    sha = forge.more(123, "feat-add-auth")
    assert review(forge)["branch"] == "feat-add-auth"
    assert place(forge).git("rev-parse", "HEAD") == sha


def test_diverged_suggestions_of_an_earlier_review_are_reported(forge: Forge) -> None:
    """The author continued meanwhile: neither side is overwritten, and the old branch is named."""
    review(forge)
    made = place(forge)
    made.write("suggestion.txt", "x\n")
    mine = made.commit("suggestion")
    assert imi("remove", "review-123", cwd=forge.app.path).code == 0
    forge.more(123, "feat-add-auth")
    told = "feat-add-auth of an earlier review stays: it has 1 local commit not yet in pull request 123"
    for _ in range(2):
        ran = imi("--json", "review", "123", cwd=forge.app.path)
        assert (ran.data["branch"], ran.data["warnings"]) == ("pr/123", [told])
        assert "because feat-add-auth of an earlier review has diverged" in ran.data["message"]
        assert imi("remove", "review-123", cwd=forge.app.path).code == 0
    assert forge.app.git("rev-parse", "feat-add-auth") == mine


def test_branch_names_that_git_cannot_hold_together_are_skipped(forge: Forge) -> None:
    forge.app.git("branch", "pr", "main")
    forge.app.git("branch", "feat-add-auth/deeper", "main")
    assert review(forge)["branch"] == "review-123"


def test_a_branch_checked_out_elsewhere(forge: Forge, tmp_path: Path) -> None:
    forge.app.git("fetch", "-q")
    forge.app.git("worktree", "add", "-q", "-b", "feat-add-auth", str(tmp_path / "mine"), "origin/feat-add-auth")
    assert review(forge)["branch"] == "pr/123"


# --- which repository ------------------------------------------------------------------------------------------------


def test_an_address_finds_its_repository(forge: Forge, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other")
    url = "https://github.com/acme/app/pull/123"
    ran = refused(forge, url, cwd=other.path)
    assert "github.com/acme/app" in ran.err and "clone it" in ran.err
    imi("feat", "x", cwd=forge.app.path)  # registers it
    assert review(forge, url, cwd=other.path)["worktree_path"] == str(place(forge).path)
    assert "no remote github.com/acme/app" in refused(forge, url, str(other.path)).err


def test_a_review_in_a_repository_given_by_name(forge: Forge, tmp_path: Path) -> None:
    imi("feat", "x", cwd=forge.app.path)
    assert review(forge, "123", "app", cwd=tmp_path / "home")["worktree_path"] == str(place(forge).path)


def test_in_a_cluster_it_is_a_sibling_with_the_shared_files(forge: Forge, tmp_path: Path) -> None:
    home = tmp_path / "coolcode"
    (home / "sync" / "repo").mkdir(parents=True)
    (home / ".iMi").mkdir()
    (home / "sync" / "repo" / ".env").write_text("SECRET=1\n")
    forge.app.path.rename(home / "trunk-main")
    data = review(forge, cwd=home / "trunk-main")
    assert data["worktree_path"] == str(home / "review-123")
    assert (home / "review-123" / ".env").read_text() == "SECRET=1\n" and (home / "review-123" / ".env").is_symlink()


# --- refusals --------------------------------------------------------------------------------------------------------


def test_no_such_pull_request(forge: Forge, tmp_path: Path) -> None:
    ran = refused(forge, "999")
    assert "origin has no pull request 999" in ran.err
    assert not (tmp_path / "app.worktrees").exists() and kinds(tmp_path) == []
    assert (
        "alice/nope.git" in refused(forge, "alice:nope").err or "has no branch nope" in refused(forge, "alice:nope").err
    )


def test_no_remote_and_no_repository(repo: Repo, tmp_path: Path) -> None:
    ran = imi("review", "1", cwd=repo.path)
    assert ran.code == 1 and "no remote" in ran.err
    ran = imi("review", "1", cwd=tmp_path / "home")
    assert ran.code == 1 and "not inside a git repository" in ran.err
    ran = imi("review", "nonsense", cwd=repo.path)
    assert ran.code == 2 and "is not a pull request" in ran.err


@pytest.mark.parametrize("url", ["ext::sh -c 'touch canary'", "-oProxyCommand=touch", "http://h/acme/app.git"])
def test_an_address_that_runs_something_is_refused(forge: Forge, url: str) -> None:  # G3
    forge.app.git("config", "remote.origin.url", url)
    ran = refused(forge)
    assert not list(forge.app.path.rglob("canary")) and ran.err.count("\n") <= 2


# G1: what the pull request brings must not run, not even in a trusted repository
def test_hooks_that_come_with_the_pull_request_never_run(forge: Forge, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    forge.work.git("switch", "-q", "feat-add-auth")
    for hook in ("post-checkout", "post-merge", "reference-transaction", "post-index-change"):
        path = forge.work.write(f".husky/{hook}", f"#!/bin/sh\ntouch {canary}\n")
        path.chmod(0o755)
    forge.work.write(".gitattributes", "*.txt filter=evil\n")
    forge.more(123, "feat-add-auth")
    forge.app.git("config", "core.hooksPath", ".husky")
    forge.app.git("config", "filter.evil.smudge", f"touch {canary}; cat")
    forge.app.git("config", "filter.evil.clean", f"touch {canary}; cat")
    assert imi("trust", cwd=forge.app.path).code == 0
    review(forge)
    forge.more(123, "feat-add-auth", name="again.txt")
    review(forge)
    assert not canary.exists()
    forge.app.git("worktree", "add", "-q", "--detach", str(tmp_path / "plain"), "feat-add-auth")
    assert canary.exists()  # plain git does run them


def test_post_create_commands_run_for_own_branches_only(forge: Forge, gh: FakeGh, tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".config" / "iMi"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[repositories.app]\npost_create = "touch {tmp_path}/ran"\n')
    assert imi("trust", cwd=forge.app.path).code == 0
    ran = imi("--json", "review", "124", cwd=forge.app.path)
    assert not (tmp_path / "ran").exists() and "post_create commands were not run" in str(ran.data["warnings"])
    review(forge)
    assert (tmp_path / "ran").exists()


# G1: nor when the worktree is looked at afterwards
def test_verbs_on_a_review_run_nothing_that_came_with_it(forge: Forge, tmp_path: Path) -> None:
    """`make stop`, or a filter of the trusted repository that lies in the tree, is whatever the author made of it."""
    folder = tmp_path / "home" / ".config" / "iMi"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text('[repositories.app]\npre_remove = "./tool"\n')
    canary = tmp_path / "canary"
    forge.work.git("switch", "-q", "feat-add-auth")
    forge.work.write("tool", f"#!/bin/sh\ntouch {canary}\nexec cat\n").chmod(0o755)
    forge.work.write(".gitattributes", "*.txt filter=ours\n")
    forge.more(123, "feat-add-auth")
    forge.app.git("config", "filter.ours.clean", "./tool")
    forge.app.git("config", "core.hooksPath", ".")
    assert imi("trust", cwd=forge.app.path).code == 0
    review(forge)
    made = place(forge)

    def touched() -> Path:
        """git must read it again to know whether it changed."""
        made.write("more.txt", (made.path / "more.txt").read_text() + "x")
        return forge.app.path

    for words in (
        ["claim", "review-123"],
        ["release", "review-123"],
        ["merge", "review-123"],
        ["remove", "review-123"],
    ):
        ran = imi(*words, "--agent", "a", cwd=touched())
        assert ran.code == (0 if words[0] == "claim" else 1) and not canary.exists(), ran
    made.git("status", "--porcelain")
    assert canary.exists()  # plain git does run it
    canary.unlink()
    ran = imi("remove", "review-123", "--force", "--agent", "b", "--yes-really", "review-123", cwd=touched())
    assert "pre_remove commands were not run" in ran.err and not canary.exists(), ran


# --- whole or not at all ---------------------------------------------------------------------------------------------


def test_two_simultaneous_reviews_create_one_worktree(forge: Forge, tmp_path: Path) -> None:
    answers: list[Ran] = []
    threads = [
        threading.Thread(target=lambda: answers.append(imi("--json", "review", "123", cwd=forge.app.path)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert [ran.code for ran in answers] == [0, 0, 0], [ran.err + ran.out for ran in answers if ran.code]
    assert sorted(ran.data["created"] for ran in answers) == [False, False, True]
    assert kinds(tmp_path).count(("worktree.created", "review-123")) == 1


def test_a_folder_in_the_way_is_not_touched(forge: Forge, tmp_path: Path) -> None:
    place(forge).path.mkdir(parents=True)
    (place(forge).path / "mine").write_text("x")
    ran = refused(forge)
    assert "exists and is not a worktree" in ran.err and (place(forge).path / "mine").read_text() == "x"
    assert forge.app.git("branch", "--list", "feat-add-auth") == "" and kinds(tmp_path) == []


def test_a_review_whose_folder_was_deleted_is_refused_with_advice(forge: Forge) -> None:
    review(forge)
    shutil.rmtree(place(forge).path)
    ran = refused(forge)
    assert "gone" in ran.err and "imi prune" in ran.err


def test_a_review_branch_without_an_upstream_gets_one(forge: Forge) -> None:
    review(forge)
    forge.app.git("config", "--remove-section", "branch.feat-add-auth")
    review(forge)
    assert config(forge.app, "feat-add-auth")["remote"] == "origin"


def test_passwords_in_addresses_are_not_shown(forge: Forge, gh: FakeGh, tmp_path: Path) -> None:  # T4
    git("config", "--global", f"url.{forge.root}/.insteadOf", "https://me:hunter2@github.com/", cwd=forge.app.path)
    forge.app.git("remote", "set-url", "origin", "https://me:hunter2@github.com/acme/app.git")
    fork = {
        "headRepositoryOwner": {"login": "alice"},
        "headRepository": {"name": "app-fork"},
        "headRefName": "fix/typo",
    }
    gh.answers(number=124, isCrossRepository=True, maintainerCanModify=True, **fork)
    forge.app.git("branch", "fix/typo", "main")
    for args in (
        ("review", "124"),
        ("--json", "review", "124"),
        ("review", "bob:nothing"),
        ("review", "alice:nothing"),
    ):
        ran = imi(*args, cwd=forge.app.path)
        assert "hunter2" not in ran.out + ran.err
    assert "hunter2" in config(forge.app, "pr/124")["remote"]  # where git itself needs and keeps it
    connection = registry(tmp_path)
    assert not [event for event in events.list_events(connection) if "hunter2" in event.data]
    connection.close()


def test_progress_reaches_a_terminal_only(forge: Forge) -> None:
    ran = imi("review", "123", cwd=forge.app.path)
    assert ran.err == ""
    done = subprocess.run(["git", "worktree", "list"], cwd=forge.app.path, capture_output=True, text=True, check=True)
    assert "review-123" in done.stdout and "locked" not in done.stdout


def test_a_fork_whose_branch_has_the_name_of_a_local_branch(forge: Forge, gh: FakeGh) -> None:
    """An answer that does not say whether it is a fork must never make `git push` hit our own branch."""
    gh.answers(number=124, headRefName="feat-add-auth", isCrossRepository=None)
    data = review(forge, "124")
    assert data["push"] is None
    assert config(forge.app, "feat-add-auth") == {"remote": "origin", "merge": "refs/pull/124/head"}


def test_a_review_registered_under_another_name_is_found(forge: Forge, tmp_path: Path) -> None:
    path = str(tmp_path / "auth")
    forge.app.git("worktree", "add", "-q", "-b", "auth", path, "origin/main")
    with Context(str(forge.app.path)) as context:
        name = context.register(context.repository())
        about = {"branch": "auth", "kind": "review", "path": path, "pr_number": 123}
        db.transact(context.connection, worktrees.register, name, "auth", **about)
    assert review(forge)["worktree_path"] == path


def kill_and_repeat(forge: Forge, times: int) -> None:
    """Whatever moment it is killed at, the next run has the whole worktree and nothing half made is left."""
    delays = random.Random(times)
    for _ in range(times):
        process = subprocess.Popen(
            imi_argv("review", "123"),
            cwd=forge.app.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        try:
            process.wait(delays.uniform(0.05, 0.6))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(LIMIT)
        made = place(forge)
        assert review(forge)["worktree_path"] == str(made.path)
        assert made.git("rev-parse", "HEAD") == forge.at("feat-add-auth") and made.git("status", "--porcelain") == ""
        assert config(forge.app, str(made.git("branch", "--show-current")))["remote"] == "origin"
        assert "locked" not in forge.app.git("worktree", "list", "--porcelain")
        forge.app.git("worktree", "remove", str(made.path))
        forge.app.git("branch", "-q", "-D", "feat-add-auth")


def test_killed_at_any_moment(forge: Forge) -> None:  # A1
    kill_and_repeat(forge, 4)


@pytest.mark.soak
def test_killed_at_many_moments(forge: Forge) -> None:  # A1
    kill_and_repeat(forge, 100)
