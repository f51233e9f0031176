"""Where a new branch starts: at the fetched trunk, or without a network at the local one, with its age."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.actions.create_kit import branches, shim
from tests.helpers import Repo, git, imi


@pytest.fixture
def colleague(cloned: Repo, tmp_path: Path) -> Repo:
    """A second clone of the same origin."""
    git("clone", "-q", str(tmp_path / "origin.git"), str(tmp_path / "theirs"), cwd=tmp_path)
    return Repo(tmp_path / "theirs")


def configure(home: Path, text: str) -> None:
    file = home / ".config" / "iMi" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def push(repo: Repo, branch: str = "main", name: str = "new.txt") -> str:
    repo.write(name, f"{branch}\n")
    tip = repo.commit(f"on {branch}")
    repo.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    return tip


def test_the_trunk_is_fetched_first_and_the_local_one_is_left_alone(cloned: Repo, colleague: Repo) -> None:
    before = branches(cloned)["main"]
    tip = push(colleague)
    done = imi("--json", "feat", "x", cwd=cloned.path).data
    assert (done["base"], branches(cloned)["feat/x"]) == ("origin/main", tip)
    assert branches(cloned)["main"] == before
    assert not (cloned.path / ".git" / "FETCH_HEAD").exists()


def test_only_the_trunk_and_the_wanted_branch_are_fetched(cloned: Repo, colleague: Repo) -> None:
    push(colleague)
    push(colleague, "other")
    colleague.git("tag", "v9")
    colleague.git("push", "-q", "--tags")
    imi("feat", "x", cwd=cloned.path)
    refs = cloned.git("for-each-ref", "--format=%(refname)").splitlines()
    assert "refs/remotes/origin/other" not in refs
    assert "refs/tags/v9" not in refs


def test_a_branch_that_only_the_remote_has_is_found_by_the_fetch(cloned: Repo, colleague: Repo) -> None:
    tip = push(colleague, "feat/x")
    done = imi("--json", "feat", "x", cwd=cloned.path).data
    assert (done["took_over"], branches(cloned)["feat/x"]) == ("remote", tip)


def test_a_remote_on_this_disk_without_news_is_not_fetched_from(cloned: Repo, tmp_path: Path) -> None:
    env = shim(tmp_path / "bin", f'echo "$*" >> {tmp_path}/argv')
    assert imi("feat", "x", cwd=cloned.path, env=env).code == 0
    assert " fetch " not in (tmp_path / "argv").read_text()


def test_commits_that_only_the_local_trunk_has_are_counted_and_left_out(cloned: Repo) -> None:
    origin = cloned.git("rev-parse", "origin/main")
    cloned.write("mine.txt", "1\n")
    cloned.commit("one")
    cloned.write("mine.txt", "2\n")
    cloned.commit("two")
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, branches(cloned)["feat/x"]) == (0, origin)
    assert "the local main has 2 commits not on origin" in done.err


def unreachable(repo: Repo) -> None:
    repo.git("remote", "set-url", "origin", str(repo.path.parent / "gone.git"))


def test_offline_the_local_trunk_is_used_and_its_age_is_shown(cloned: Repo) -> None:
    cloned.write("pushed.txt", "1\n")
    cloned.commit("pushed")
    cloned.git("push", "-q")  # writes the remote-tracking ref and its reflog as files
    cloned.write("mine.txt", "1\n")
    tip = cloned.commit("ahead")
    heard = time.time() - 3 * 3600
    for name in ("refs/remotes/origin/main", "logs/refs/remotes/origin/main"):
        os.utime(cloned.path / ".git" / name, (heard, heard))
    unreachable(cloned)
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, branches(cloned)["feat/x"]) == (0, tip)
    assert "could not fetch" in done.err
    assert "used the local copy of main, last fetched 3 hours ago" in done.err


def test_offline_a_local_trunk_that_is_behind_is_not_preferred(cloned: Repo, colleague: Repo) -> None:
    tip = push(colleague)
    cloned.git("fetch", "-q")
    unreachable(cloned)
    done = imi("--json", "feat", "x", cwd=cloned.path).data
    assert (done["base"], branches(cloned)["feat/x"]) == ("origin/main", tip)
    assert len(done["warnings"]) == 1


def test_offline_and_diverged_the_local_trunk_is_used_and_the_difference_is_shown(
    cloned: Repo, colleague: Repo
) -> None:
    push(colleague)
    cloned.git("fetch", "-q")
    cloned.write("mine.txt", "1\n")
    tip = cloned.commit("mine")
    unreachable(cloned)
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, branches(cloned)["feat/x"]) == (0, tip)
    assert "origin/main has 1 commit not in the local main" in done.err


def test_a_remote_that_does_not_answer_times_out(cloned: Repo, own_home: Path, tmp_path: Path) -> None:
    configure(own_home, "[git_settings]\nfetch_timeout_seconds = 1\n")
    unreachable(cloned)
    env = shim(tmp_path / "bin", 'case " $* " in *" fetch "*) sleep 300;; esac')
    done = imi("feat", "x", cwd=cloned.path, env=env)
    assert (done.code, "could not fetch" in done.err) == (0, True)


def test_without_auto_fetch_no_remote_is_contacted(
    cloned: Repo, colleague: Repo, own_home: Path, tmp_path: Path
) -> None:
    configure(own_home, "[git_settings]\nauto_fetch = false\n")
    before = branches(cloned)["main"]
    push(colleague)
    env = shim(tmp_path / "bin", f'echo "$*" >> {tmp_path}/argv')
    done = imi("feat", "x", cwd=cloned.path, env=env)
    assert (done.code, done.err, branches(cloned)["feat/x"]) == (0, "", before)
    assert " fetch " not in (tmp_path / "argv").read_text()


def test_a_trunk_that_was_never_pushed_is_the_start_point(cloned: Repo, tmp_path: Path) -> None:
    git("update-ref", "-d", "refs/heads/main", cwd=tmp_path / "origin.git")
    cloned.git("update-ref", "-d", "refs/remotes/origin/main")
    cloned.git("remote", "set-url", "origin", f"file://{tmp_path}/origin.git/.")
    git("update-ref", "refs/heads/else", _some_commit(tmp_path / "origin.git"), cwd=tmp_path / "origin.git")
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, branches(cloned)["feat/x"]) == (0, branches(cloned)["main"])


def _some_commit(repository: Path) -> str:
    listed = git("cat-file", "--batch-check", "--batch-all-objects", cwd=repository).splitlines()
    return next(line.split()[0] for line in listed if " commit " in line)


def test_an_empty_local_repository_starts_at_the_trunk_of_its_remote(cloned: Repo, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    git("init", "-q", "-b", "main", str(fresh), cwd=tmp_path)
    git("remote", "add", "origin", str(tmp_path / "origin.git"), cwd=fresh)
    done = imi("--json", "feat", "x", cwd=fresh)
    assert done.data["base"] == "origin/main"


def test_from_a_branch_of_the_remote_is_fetched_first(cloned: Repo, colleague: Repo) -> None:
    push(colleague, "dev")
    cloned.git("fetch", "-q")
    tip = push(colleague, "dev", "more.txt")
    done = imi("--json", "feat", "x", "--from", "origin/dev", cwd=cloned.path).data
    assert (done["base"], branches(cloned)["feat/x"]) == ("origin/dev", tip)


@pytest.mark.parametrize("url", ["ext::sh -c 'touch CANARY'", "-u./evil"])
def test_a_hostile_remote_address_runs_nothing_and_is_reported(cloned: Repo, url: str) -> None:
    cloned.git("config", "remote.origin.url", url)
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, "could not fetch" in done.err) == (0, True)
    assert not list(cloned.path.rglob("CANARY"))


def test_the_remote_of_new_branches_can_have_another_name(cloned: Repo, colleague: Repo, own_home: Path) -> None:
    cloned.git("remote", "rename", "origin", "upstream")
    configure(own_home, '[git_settings]\nremote_name = "upstream"\n')
    tip = push(colleague)
    assert imi("--json", "feat", "x", cwd=cloned.path).data["base"] == "upstream/main"
    assert branches(cloned)["feat/x"] == tip
    configure(own_home, '[git_settings]\nremote_name = "--upload-pack=x"\n')
    assert imi("feat", "y", cwd=cloned.path).code == 2
