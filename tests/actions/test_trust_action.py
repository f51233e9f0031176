"""`imi trust`: lists the programs that may run; a change of them ends the trust."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.setup import trust_action as action
from imi_monitor.git import safety
from imi_monitor.model.errors import Refused
from imi_monitor.store import events
from tests.helpers import Repo, imi, tree_hash


def kinds(repo: Repo) -> list[tuple[str, str | None]]:
    with Context(str(repo.path)) as context:
        return [(event.type, event.repo_name) for event in events.list_events(context.connection)]


def trusted(repo: Repo) -> bool:
    with Context(str(repo.path)) as context:
        return context.trusted(context.repository())


def canary(repo: Repo, tmp_path: Path) -> Path:
    """A filter that leaves a trace when git runs it for a.txt."""
    trace = tmp_path / "ran"
    script = tmp_path / "filter"
    script.write_text(f"#!/bin/sh\ntouch {trace}\ncat\n")
    script.chmod(0o755)
    repo.write(".gitattributes", "*.txt filter=x\n")
    repo.write("a.txt", "1\n")
    repo.commit("a filter")
    repo.git("config", "filter.x.clean", str(script))
    return trace


def status(repo: Repo) -> None:
    """Git looks at a file of the same size but another time, so that a filter would run, as far as it is trusted."""
    os.utime(repo.write("a.txt", "2\n"), (1, 1))
    with Context(str(repo.path)) as context:
        context.git(context.repository()).run("status", "--porcelain")


def test_nothing_runs_until_trusted_and_again_after_revoking(repo: Repo, tmp_path: Path) -> None:
    trace = canary(repo, tmp_path)
    status(repo)
    assert not trace.exists()
    done = imi("trust", cwd=repo.path)
    assert done.out.splitlines()[0] == "app is trusted now: these 1 program may run"
    assert any("filter.x.clean=" in line for line in done.out.splitlines())
    status(repo)
    assert trace.exists()
    trace.unlink()
    assert imi("trust", "--revoke", cwd=repo.path).out == "app is no longer trusted: nothing it configures runs\n"
    status(repo)
    assert not trace.exists()
    assert kinds(repo) == [("repository.trusted", "app"), ("repository.untrusted", "app")]


@pytest.mark.parametrize("change", ["config", "new hook", "hook content", "hook mode"])
def test_trust_is_lost_when_programs_change(repo: Repo, change: str) -> None:
    hook = repo.path / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    repo.git("config", "core.pager", "less")
    imi("trust", cwd=repo.path)
    assert trusted(repo)
    if change == "config":
        repo.git("config", "core.fsmonitor", "evil")
    elif change == "new hook":
        (hook.parent / "post-checkout").write_text("#!/bin/sh\n")
    elif change == "hook content":
        hook.write_text("#!/bin/sh\nevil\n")
    else:
        hook.chmod(0o644)
    assert not trusted(repo)
    said = imi("trust", "--show", cwd=repo.path)
    assert said.code == 0
    assert said.out.startswith("app was trusted, but its programs have changed since")
    assert imi("trust", "--show", "--json", cwd=repo.path).data["state"] == "lost"
    assert imi("trust", cwd=repo.path).out.startswith("app is trusted now")
    assert trusted(repo)


def test_harmless_changes_keep_the_trust(repo: Repo) -> None:
    imi("trust", cwd=repo.path)
    repo.git("config", "user.name", "Somebody")
    repo.git("branch", "x")
    repo.worktree("feat-x")
    assert trusted(repo)


def test_trust_show_changes_nothing(repo: Repo) -> None:
    before = tree_hash(repo.path)
    done = imi("trust", "--show", cwd=repo.path)
    assert done.out == "app is not trusted: none of these runs until `imi trust`\n  (it configures no programs)\n"
    assert not trusted(repo)
    assert kinds(repo) == []
    assert tree_hash(repo.path) == before


def test_trusting_twice_records_one_event(repo: Repo) -> None:
    imi("trust", cwd=repo.path)
    assert imi("trust", cwd=repo.path).out.startswith("app is trusted already")
    imi("trust", "--revoke", cwd=repo.path)
    assert imi("trust", "--revoke", cwd=repo.path).out == "app was not trusted\n"
    assert len(kinds(repo)) == 2


def test_trust_lists_hooks_and_the_users_commands(repo: Repo, own_home: Path) -> None:
    (own_home / ".config" / "iMi").mkdir(parents=True)
    (own_home / ".config" / "iMi" / "config.toml").write_text(
        '[repositories.app]\npost_create = ["npm ci"]\npre_remove = "make stop"\n'
    )
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    repo.git("config", "core.sshCommand", "ssh -o ProxyCommand=\x1b[31mred")
    done = imi("trust", "--show", cwd=repo.path)
    assert "\x1b" not in done.out
    for part in ("core.sshcommand=", "hook post-checkout", "post_create: npm ci", "pre_remove: make stop"):
        assert part in done.out
    data = imi("trust", "--show", "--json", cwd=repo.path).data
    assert (data["state"], data["trusted"], data["repo_name"]) == ("untrusted", False, None)
    assert "post_create: npm ci" in data["programs"]


def test_trust_shows_no_secrets(repo: Repo) -> None:
    secret = "ghp_" + "a1B2" * 9
    repo.git("config", "credential.helper", f"!echo password={secret}")
    for words in (["trust", "--show"], ["trust", "--show", "--json"], ["trust"], ["events", "--json"]):
        assert secret not in imi(*words, cwd=repo.path).out


def test_programs_that_change_during_trust_are_refused(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes a program into the configuration between the list and the trust."""
    programs = safety.programs

    def late(common_dir: str) -> list[str]:
        found = programs(common_dir)
        if not found:
            repo.git("config", "core.fsmonitor", "evil")
        return found

    with Context(str(repo.path)) as context:
        monkeypatch.setattr(safety, "programs", late)
        with pytest.raises(Refused, match="changed while imi read them"):
            action.TrustAction().run(context, Request("trust", {}))
    assert not trusted(repo)


def test_trust_works_by_name_and_for_worktrees(repo: Repo, tmp_path: Path) -> None:
    there = repo.worktree("feat-x")
    assert imi("trust", str(there.path), cwd=tmp_path).out.startswith("app is trusted now")
    assert trusted(repo) and trusted(there)
    assert imi("trust", "app", "--show", cwd=tmp_path).out.startswith("app is trusted:")
    assert imi("trust", cwd=tmp_path).code == 1


def test_trust_refuses_contradicting_options(repo: Repo) -> None:
    assert imi("trust", "--show", "--revoke", cwd=repo.path).code == 2


def test_trust_prints_json(repo: Repo) -> None:
    data = json.loads(imi("trust", "--json", cwd=repo.path).out)["data"]
    assert (data["trusted"], data["state"], data["path"], data["programs"]) == (True, "trusted", str(repo.path), [])
