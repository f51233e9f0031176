"""`imi claim`, `heartbeat`, `verify-lock`, `release`, `claims` and `queue`, for people and scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import paths
from tests.helpers import ROOT, Repo, imi, imi_argv
from tests.limits import LIMIT


@pytest.fixture
def feat(repo: Repo) -> Repo:
    """A worktree made by plain git, without a row in the registry."""
    return repo.worktree("feat-x")


def _claim(repo: Repo, agent: str, *more: str) -> None:
    done = imi("claim", "feat-x", "--agent", agent, *more, cwd=repo.path)
    assert done.code == 0, done.err


def _stale(repo: Repo) -> None:
    """Make the claim's last heartbeat older."""
    from imi_monitor.store import db

    connection = db.connect(paths.default_database())
    connection.execute("UPDATE claims SET heartbeat_uptime = heartbeat_uptime - 3600")
    connection.close()


def test_claim_verify_release(repo: Repo, feat: Repo) -> None:  # S2.9 S2.13 S2.45
    done = imi("claim", "feat-x", "--agent", "claude-1", "--task", "T-1", "--json", cwd=repo.path)
    assert done.code == 0
    envelope = done.json
    assert (envelope["schema"], envelope["success"], envelope["error"]) == (1, True, None)
    data = done.data
    assert (data["worktree_name"], data["yi_id"], data["path"]) == ("feat-x", "claude-1", str(feat.path))
    assert (data["agent_id"], data["epoch"], data["state"], data["how"]) == ("claude-1", 1, "held", "claimed")
    assert data["worktree_id"]
    assert data["claimed_at"].endswith("+00:00")
    assert imi("verify-lock", "feat-x", "--agent", "claude-1", cwd=feat.path).code == 0
    done = imi("release", "feat-x", "--agent", "claude-1", "--json", cwd=feat.path)
    assert done.data["released_at"] >= data["claimed_at"]
    assert (done.data["yi_id"], done.data["state"]) == ("claude-1", "free")
    assert imi("verify-lock", "feat-x", "--agent", "claude-1", cwd=feat.path).code == 1


@pytest.mark.parametrize("spelling", ["--agent", "--agent-id", "--yi-id"])
def test_the_agent_has_three_spellings_and_short_names_are_found(repo: Repo, feat: Repo, spelling: str) -> None:
    assert imi("claim", "x", f"{spelling}=codex-1", "--json", cwd=repo.path).data["agent_id"] == "codex-1"


def test_the_agent_comes_from_the_environment_else_is_the_user(repo: Repo, feat: Repo) -> None:
    by_environment = imi("claim", "feat-x", "--json", cwd=repo.path, env={"IMI_AGENT_ID": "gemini-2"})
    assert by_environment.data["agent_id"] == "gemini-2"
    refused = imi("claim", "feat-x", cwd=repo.path, env={"USER": "ann"})
    assert (refused.code, "gemini-2" in refused.err) == (1, True)
    imi("release", "feat-x", "--agent", "gemini-2", cwd=repo.path)
    assert imi("claim", "feat-x", "--json", cwd=repo.path, env={"USER": "ann"}).data["agent_id"] == "human:ann"


def test_a_refusal_names_owner_since_when_task_and_what_to_do(repo: Repo, feat: Repo) -> None:  # S2.58
    _claim(repo, "claude-1", "--task", "T-7")
    refused = imi("claim", "feat-x", "--agent", "codex-1", cwd=repo.path)
    assert refused.code == 1
    assert refused.out == ""
    for part in ("feat-x", "has been held by claude-1 for ", "T-7", "--wait", "--force --reason"):
        assert part in refused.err
    as_json = imi("claim", "feat-x", "--agent", "codex-1", "--json", cwd=repo.path)
    assert (as_json.code, as_json.err) == (1, "")
    assert (as_json.json["success"], as_json.json["code"]) == (False, "claimed")
    assert (as_json.json["data"]["agent_id"], as_json.json["data"]["state"]) == ("claude-1", "held")


def test_the_owner_can_claim_again(repo: Repo, feat: Repo) -> None:
    _claim(repo, "claude-1")
    again = imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    assert (again.code, "yours already" in again.out) == (0, True)


def test_force_needs_a_reason_and_the_old_owner_is_told(repo: Repo, feat: Repo) -> None:
    _claim(repo, "claude-1")
    assert imi("claim", "feat-x", "--agent", "codex-1", "--force", cwd=repo.path).code == 2
    taken = imi("claim", "feat-x", "--agent", "codex-1", "--force", "--reason", "deploy now", "--json", cwd=repo.path)
    assert (taken.data["how"], taken.data["previous_agent"], taken.data["epoch"]) == ("forced", "claude-1", 2)
    for verb in ("verify-lock", "heartbeat", "release"):
        told = imi(verb, "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert told.code == 1
        assert "taken by codex-1 at 2" in told.err
        assert "because: deploy now" in told.err


def test_a_stale_claim_is_shown_and_taken_over_only_when_asked(repo: Repo, feat: Repo) -> None:
    _claim(repo, "claude-1", "--ttl", "600")
    early = imi("claim", "feat-x", "--agent", "codex-1", "--takeover", cwd=repo.path)
    assert early.code == 1, "it is held and lives"
    _stale(repo)
    assert imi("claims", "--json", cwd=repo.path).data["claims"][0]["state"] == "stale"
    refused = imi("claim", "feat-x", "--agent", "codex-1", cwd=repo.path)
    assert refused.code == 1
    assert "stale" in refused.err
    assert "--takeover" in refused.err
    taken = imi("claim", "feat-x", "--agent", "codex-1", "--takeover", "--json", cwd=repo.path)
    assert (taken.data["how"], taken.data["previous_agent"]) == ("taken_over", "claude-1")


def test_a_heartbeat_refreshes_the_claim(repo: Repo, feat: Repo) -> None:
    _claim(repo, "claude-1", "--ttl", "600")
    _stale(repo)
    assert imi("heartbeat", "feat-x", "--agent", "claude-1", "--epoch", "1", cwd=repo.path).code == 0
    assert imi("claims", "--json", cwd=repo.path).data["claims"][0]["state"] == "held"
    assert imi("heartbeat", "feat-x", "--agent", "claude-1", "--epoch", "2", cwd=repo.path).code == 1


def test_a_dead_holders_worktree_goes_to_the_next_claimer(repo: Repo, feat: Repo) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        _claim(repo, "claude-1", "--pid", str(child.pid))
        assert imi("claim", "feat-x", "--agent", "codex-1", cwd=repo.path).code == 1
        assert imi("verify-lock", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    finally:
        child.kill()
        child.wait(LIMIT)
    dead = imi("verify-lock", "feat-x", "--agent", "claude-1", cwd=repo.path)
    assert (dead.code, f"process {child.pid} is gone" in dead.err) == (1, True)
    taken = imi("claim", "feat-x", "--agent", "codex-1", "--json", cwd=repo.path)
    assert (taken.data["how"], taken.data["previous_agent"]) == ("after_death", "claude-1")
    log = [(entry["type"], entry["data"].get("how")) for entry in _events(repo)]
    assert log[-2:] == [("worktree.released", "died"), ("worktree.claimed", None)]


def _events(repo: Repo) -> list[dict[str, object]]:
    from imi_monitor.store import db, events

    connection = db.connect(paths.default_database())
    found = [{"type": event.type, "data": json.loads(event.data)} for event in events.list_events(connection)]
    connection.close()
    return found


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--pid", "999999999"], 1, "no process 999999999"),
        (["--pid", "0"], 2, "number of a process"),
        (["--pid", "1.5"], 2, "number of a process"),
        (["--pid", "x"], 2, "--pid must be a whole number"),
        (["--ttl", "-1"], 2, "--ttl"),
        (["--wait", "soon"], 2, "--wait must be a whole number"),
        (["--reason", "because"], 2, "--reason needs --force or --takeover"),
        (["--force", "--reason", " "], 2, "--reason is empty"),
        (["--force", "--reason", "x" * 501], 2, "501 characters"),
        (["--agent", "imi:remove"], 2, "reserved"),
        (["--agent", ""], 2, "is empty"),
        (["--agent", "a\x1b[31m"], 2, "control"),
        (["--frce"], 2, "did you mean --force"),
    ],
)
def test_senseless_claim_options_are_refused(repo: Repo, feat: Repo, options: list[str], code: int, said: str) -> None:
    refused = imi("claim", "feat-x", *options, cwd=repo.path)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err
    assert "\x1b" not in refused.err


def test_the_pid_may_come_from_the_environment(repo: Repo, feat: Repo) -> None:
    done = imi("claim", "feat-x", "--json", cwd=repo.path, env={"IMI_AGENT_PID": str(os.getpid())})
    assert done.data["pid"] == os.getpid()
    assert imi("claim", "feat-x", cwd=repo.path, env={"IMI_AGENT_PID": "abc"}).code == 2


def test_a_missing_worktree_cannot_be_claimed_but_released(repo: Repo, feat: Repo) -> None:
    _claim(repo, "claude-1")
    feat.path.rename(feat.path.with_name("elsewhere"))
    refused = imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    assert (refused.code, "`imi undo`" in refused.err) == (1, False)
    assert (
        "feat-x's folder is missing" in refused.err
        and "`imi repair` searches for it, `imi prune` forgets it" in refused.err
    )
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0


def test_the_advice_after_a_removal_is_to_undo_it(repo: Repo, feat: Repo) -> None:
    removed = imi("remove", "feat-x", "--json", cwd=repo.path).data["trash_id"]
    for name in ("feat-x", "x"):
        refused = imi("claim", name, cwd=repo.path)
        assert (refused.code, refused.err) == (1, f"imi: feat-x was removed: `imi undo {removed}` restores it\n")
    assert imi("undo", removed, cwd=repo.path).code == 0
    assert imi("claim", "x", cwd=repo.path).code == 0


def test_a_worktree_that_is_removed_while_a_claim_is_prepared(repo: Repo, feat: Repo) -> None:
    """The lookup found it; under the registry's lock it lies in the trash."""
    from imi_monitor.actions.context import Context
    from imi_monitor.model.errors import Refused
    from imi_monitor.store import claim_requests

    with Context(str(repo.path)) as context:
        target = claim_requests.ClaimTarget(None, "feat-x", path=str(feat.path))
        removed = imi("remove", "feat-x", "--json", cwd=repo.path).data["trash_id"]
        with pytest.raises(Refused, match=f"`imi undo {removed}` restores it"):
            claim_requests.refuse_missing(context.connection, target)


def test_a_dead_removal_is_recovered_before_the_claim(repo: Repo, feat: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worktree goes back to its earlier owner, not to the next claimer."""
    from imi_monitor import actions
    from imi_monitor.actions import recovery
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.model.errors import Refused
    from imi_monitor.store import claims, db

    _claim(repo, "claude-1")
    claim = actions.find("claim")
    assert claim is not None
    with Context(str(repo.path)) as context:
        before = claims.current(context.connection, "app", "feat-x")
        epoch = db.transact(context.connection, claims.reserve, "app", "feat-x", expect_epoch=1, by="remove")
        context.connection.execute("UPDATE claims SET pid_started = '1'")

        def recover(inside: Context) -> list[str]:
            db.transact(inside.connection, claims.restore, before, epoch)
            return ["the interrupted removal was taken back"]

        monkeypatch.setattr(recovery, "recover", recover)
        with pytest.raises(Refused, match="held by claude-1"):
            claim.run(context, Request("claim", {"name": "feat-x", "agent": "codex-1"}))


def test_the_main_worktree_can_be_claimed(repo: Repo) -> None:
    assert imi("claim", "app", "--agent", "a", "--json", cwd=repo.path).data["path"] == str(repo.path)


class TestRelease:
    def test_only_the_owner_with_the_right_epoch_can_release(self, repo: Repo, feat: Repo) -> None:
        _claim(repo, "claude-1")
        other = imi("release", "feat-x", "--agent", "codex-1", cwd=repo.path)
        assert (other.code, "held by claude-1" in other.err) == (1, True)
        wrong = imi("release", "feat-x", "--agent", "claude-1", "--epoch", "7", cwd=repo.path)
        assert (wrong.code, "epoch 7" in wrong.err) == (1, True)
        assert imi("release", "feat-x", "--agent", "claude-1", "--epoch", "1", cwd=repo.path).code == 0
        free = imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert free.code == 1
        assert "feat-x is not claimed: there is nothing to release" in free.err and "imi claim" not in free.err

    @pytest.mark.parametrize("kind", ["untracked", "modified", "staged"])
    def test_a_dirty_tree_is_not_released(self, repo: Repo, feat: Repo, kind: str) -> None:
        _claim(repo, "claude-1")
        feat.write("new.py" if kind == "untracked" else "README.md", "changed\n")
        if kind == "staged":
            feat.git("add", "-A")
        refused = imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert (refused.code, "uncommitted" in refused.err, "--dirty-ok" in refused.err) == (1, True, True)
        assert imi("release", "feat-x", "--agent", "claude-1", "--dirty-ok", cwd=repo.path).code == 0
        _claim(repo, "claude-1")
        assert imi("release", "feat-x", "--agent", "claude-1", "--force", cwd=repo.path).code == 0

    def test_a_tree_that_git_cannot_read_counts_as_dirty(self, repo: Repo, feat: Repo) -> None:
        _claim(repo, "claude-1")
        (repo.path / ".git" / "worktrees" / "feat-x" / "index").write_bytes(b"no index")
        refused = imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert (refused.code, "cannot tell" in refused.err) == (1, True)

    def test_release_does_not_check_another_worktree_of_the_same_name(self, repo: Repo, tmp_path: Path) -> None:
        """git is started on the likely place before the registry is asked; only the registry knows the place."""
        claimed = tmp_path / "elsewhere" / "feat-x"
        repo.git("worktree", "add", "-q", "-b", "feat/x", claimed)
        _claim(repo, "claude-1")
        (claimed / "new.py").write_text("work\n")
        repo.git("worktree", "add", "-q", "-b", "feat/other", tmp_path / "feat-x")
        refused = imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert (refused.code, "uncommitted" in refused.err) == (1, True)

    def test_release_uses_the_filters_of_a_trusted_repository(self, repo: Repo, feat: Repo) -> None:
        feat.git("config", "filter.loud.clean", "tr a-z A-Z")
        feat.write(".gitattributes", "*.txt filter=loud\n")
        note = feat.write("note.txt", "quiet\n")
        feat.commit("a file that is kept in capitals")
        _claim(repo, "claude-1")
        note.write_text("quiet\n")
        os.utime(note, (1, 1))
        assert imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 1, "untrusted, no filter runs"
        assert imi("trust", cwd=repo.path).code == 0
        assert imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0

    def test_force_by_another_needs_a_reason_and_is_recorded(self, repo: Repo, feat: Repo) -> None:
        _claim(repo, "claude-1")
        assert imi("release", "feat-x", "--agent", "boss", "--force", cwd=repo.path).code == 2
        done = imi("release", "feat-x", "--agent", "boss", "--force", "--reason", "gone home", "--json", cwd=repo.path)
        assert (done.data["how"], done.data["released_by"], done.data["reason"]) == ("forced", "boss", "gone home")
        told = imi("verify-lock", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert (told.code, "taken by boss" in told.err, "gone home" in told.err) == (1, True, True)
        history = imi("claims", "--history", "feat-x", "--json", cwd=repo.path).data["history"]
        assert [(grant["ended"], grant["taken_by"], grant["reason"]) for grant in history] == [
            ("forced", "boss", "gone home")
        ]


class TestVerify:
    """0 mine, 1 another's or free, 2 cannot be told; never 0 by default."""

    def _state(self, repo: Repo, agent: str, *more: str) -> tuple[int, object]:
        done = imi("verify-lock", "feat-x", "--agent", agent, "--json", *more, cwd=repo.path)
        assert done.err == ""
        assert done.json["success"] is (done.code == 0)
        return done.code, (done.json["data"] or {}).get("state")

    def test_verify_of_free_own_other_and_stale_claims(self, repo: Repo, feat: Repo) -> None:
        assert self._state(repo, "a") == (1, "free")
        _claim(repo, "a", "--ttl", "60")
        assert self._state(repo, "a") == (0, "held")
        assert self._state(repo, "a", "--epoch", "1") == (0, "held")
        assert self._state(repo, "a", "--epoch", "2") == (1, "held")
        assert self._state(repo, "b") == (1, "held")
        _stale(repo)
        assert self._state(repo, "a") == (0, "stale")
        assert imi("check-lock", "feat-x", "--agent", "a", cwd=repo.path).code == 0

    def test_verify_of_an_unknown_worktree_is_unknown(self, repo: Repo) -> None:
        assert self._state(repo, "a") == (2, "unknown")

    @pytest.mark.parametrize("damage", ["corrupt", "folder", "newer", "truncated"])
    def test_verify_with_an_unreadable_registry_is_unknown(self, repo: Repo, feat: Repo, damage: str) -> None:
        _claim(repo, "a")
        database = Path(paths.default_database())
        if damage == "corrupt":
            database.write_bytes(b"this is no database" * 1000)
        elif damage == "truncated":
            database.write_bytes(database.read_bytes()[:5000])
        elif damage == "newer":
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"import sqlite3; sqlite3.connect({str(database)!r}).execute('PRAGMA user_version=99')",
                ],
                check=True,
            )
        else:
            database.unlink()
            database.mkdir()
        assert self._state(repo, "a") == (2, "unknown")

    def test_verify_outside_of_any_repository_is_unknown(self, tmp_path: Path) -> None:
        assert imi("verify-lock", "feat-x", "--agent", "a", cwd=tmp_path).code == 2


class TestLists:
    def test_claims_history_and_queue_are_listed(self, repo: Repo, feat: Repo) -> None:
        assert imi("claims", cwd=repo.path).out == "nothing is claimed\n"
        assert imi("queue", cwd=repo.path).out == "no agent waits\n"
        _claim(repo, "claude-1", "--task", "T-1")
        shown = imi("claims", cwd=repo.path).out
        head, row = shown.splitlines()
        assert head.split() == ["Worktree", "Owner", "State", "For", "Heartbeat", "Task"]
        assert row.startswith("feat-x    claude-1  held ") and row.endswith("  T-1")
        assert "\x1b[36mheld\x1b[m" in imi("claims", "--color", "always", cwd=repo.path).out
        narrow = imi("claims", cwd=repo.path, env={"COLUMNS": "30"}).out.splitlines()
        assert max(map(len, narrow)) <= 30 and "Heartbeat" not in narrow[0]
        imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert "released" in imi("claims", "--history", "x", cwd=repo.path).out
        assert imi("claims", "--history", "--json", cwd=repo.path).data["count"] == 1
        assert imi("claims", "--history", "nope", cwd=repo.path).code == 1
        free = imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
        assert (free.code, free.err) == (1, "imi: feat-x is not claimed: there is nothing to release\n")

    def test_claims_can_be_limited_to_one_repository(self, repo: Repo, feat: Repo, tmp_path: Path) -> None:
        _claim(repo, "claude-1")
        other = Repo.create(tmp_path / "other")
        assert imi("claims", "--json", cwd=other.path).data["count"] == 0
        assert imi("claims", "--json", "--all", cwd=other.path).data["count"] == 1
        assert imi("claims", "--json", "--repo", str(other.path), cwd=repo.path).data["count"] == 0
        assert imi("claims", "--json", "--repo", str(repo.path), cwd=other.path).data["count"] == 1


def _at_once(repo: Repo, verb: list[list[str]]) -> list[tuple[int, str, str]]:
    """Several `imi` at the same moment."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            imi_argv(*words), cwd=repo.path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for words in verb
    ]
    said = [process.communicate(timeout=120) for process in running]
    return [(process.returncode, *each) for process, each in zip(running, said, strict=True)]


def _one_winner(repo: Repo, rounds: int, processes: int) -> None:
    for _ in range(rounds):
        agents = [f"agent-{number}" for number in range(processes)]
        ended = _at_once(repo, [["claim", "feat-x", "--agent", agent] for agent in agents])
        winners = [agent for agent, (code, _, _) in zip(agents, ended, strict=True) if code == 0]
        assert len(winners) == 1, ended
        for code, out, err in ended:
            assert code == 0 or (code == 1 and not out and f"held by {winners[0]} " in err), (code, out, err)
        assert imi("release", "feat-x", "--agent", winners[0], cwd=repo.path).code == 0


def test_exactly_one_of_many_claims_wins(repo: Repo, feat: Repo) -> None:  # C2, mutant: ignore rowcount
    _one_winner(repo, 2, 12)


@pytest.mark.soak
def test_exactly_one_of_many_claims_wins_long(repo: Repo, feat: Repo) -> None:  # C2
    _one_winner(repo, 32, 16)
