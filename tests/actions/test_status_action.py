"""`imi list` and `imi status` on real repositories."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import host, paths
from imi_monitor.actions.action import Action, Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.status import status_action
from imi_monitor.model import times
from imi_monitor.store import claims, db, events, repositories, worktrees
from tests.helpers import ROOT, Repo, git, imi, imi_argv
from tests.limits import LIMIT


def by_name(data: dict[str, list[dict[str, object]]]) -> dict[str, dict[str, object]]:
    return {str(row["worktree_name"]): row for row in data["worktrees"]}


def database(tmp_path: Path) -> str:
    return str(tmp_path / "home" / ".config" / "iMi" / "iMi.db")


def register(tmp_path: Path, repo: Repo) -> str:
    with Context(str(repo.path), database=database(tmp_path)) as context:
        return context.register(context.repository())


@pytest.fixture(autouse=True)
def as_wide_as_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it


@pytest.fixture
def busy(cloned: Repo) -> Repo:
    """`feat-api` three ahead with a file of each kind, `fix-bug` pushed and one behind, `odd` detached, `gone` deleted."""
    api = cloned.worktree("feat-api")
    for number in range(3):
        api.write(f"src/{number}.py", "x\n")
        api.commit(f"api {number}")
    api.write("README.md", "changed\n")
    api.write("staged.py", "x\n")
    api.git("add", "staged.py")
    api.write("new.py", "x\n")
    bug = cloned.worktree("fix-bug")
    bug.write("bug.py", "x\n")
    bug.commit("bug")
    bug.git("push", "-q", "-u", "origin", "HEAD")
    bug.git("reset", "-q", "--hard", "HEAD~1")
    cloned.git("worktree", "add", "-q", "--detach", str(cloned.path.parent / "odd"))
    gone = cloned.worktree("feat-gone")
    shutil.rmtree(gone.path)
    return cloned


# S2.36
def test_status_shows_the_git_status(busy: Repo) -> None:
    rows = by_name(imi("--json", "status", cwd=busy.path).data)
    assert list(rows) == ["app", "feat-api", "feat-gone", "fix-bug", "odd"]
    api = rows["feat-api"]
    assert {
        key: api[key] for key in ("branch", "type", "upstream", "ahead", "trunk", "trunk_ahead", "trunk_behind")
    } == {
        "branch": "feat/api",
        "type": "feat",
        "upstream": None,
        "ahead": None,
        "trunk": "origin/main",
        "trunk_ahead": 3,
        "trunk_behind": 0,
    }
    assert [api[key] for key in ("staged", "unstaged", "untracked", "conflicted", "uncommitted")] == [1, 1, 1, 0, 3]
    assert api["head"] == git("rev-parse", "HEAD", cwd=busy.path.parent / "feat-api")
    assert api["path"] == str(busy.path.parent / "feat-api")
    assert (rows["fix-bug"]["ahead"], rows["fix-bug"]["behind"]) == (0, 1)
    assert (rows["app"]["upstream"], rows["app"]["ahead"], rows["app"]["trunk"]) == ("origin/main", 0, None)
    assert rows["odd"]["branch"] is None and rows["odd"]["head"] is not None
    assert rows["feat-gone"]["missing"] is True and rows["feat-gone"]["staged"] is None


def test_the_last_change_is_the_newest_file(busy: Repo) -> None:
    api = busy.path.parent / "feat-api"
    for name, moment in (("README.md", 1_700_000_000), ("staged.py", 1_700_000_500), ("new.py", 1_700_000_100)):
        os.utime(api / name, (moment, moment))
    row = by_name(imi("--json", "status", "feat-api", cwd=busy.path).data)["feat-api"]
    assert (row["last_change_path"], row["last_change_at"]) == ("staged.py", "2023-11-14T22:21:40.000000+00:00")
    assert str(row["last_commit_at"])[:10] == git("log", "-1", "--format=%cs", cwd=api)


def test_status_counts_a_deleted_file(busy: Repo) -> None:
    (busy.path / "README.md").unlink()
    row = by_name(imi("--json", "status", "app", cwd=busy.path).data)["app"]
    assert (row["unstaged"], row["last_change_path"], row["error"]) == (1, None, None)


# one broken worktree is a row with its reason, the others are unharmed
def test_a_broken_worktree_is_a_status_row_with_its_error(busy: Repo) -> None:
    admin = Path(git("rev-parse", "--absolute-git-dir", cwd=busy.path.parent / "feat-api"))
    (admin / "index").write_bytes(b"garbage, no index")
    (busy.path.parent / "odd" / ".git").write_text("gitdir: /nowhere/else\n")
    ran = imi("--json", "status", cwd=busy.path)
    rows = by_name(ran.data)
    assert ran.code == 0 and ran.data["failed"] == 3
    assert "index" in str(rows["feat-api"]["error"]) and rows["feat-api"]["staged"] is None
    assert "tampered" in str(rows["odd"]["error"]) and rows["odd"]["untracked"] is None
    assert rows["fix-bug"]["error"] is None and rows["fix-bug"]["behind"] == 1
    text = imi("status", cwd=busy.path).out
    assert all(name in text for name in rows) and "tampered" in text


def test_status_shows_an_operation_and_conflicts(repo: Repo) -> None:
    left = repo.worktree("feat-left")
    left.write("README.md", "left\n")
    left.commit("left")
    repo.write("README.md", "right\n")
    repo.commit("right")
    left.git("merge", "main", check=False)
    row = by_name(imi("--json", "status", "feat-left", cwd=repo.path).data)["feat-left"]
    assert (row["operation"], row["conflicted"], row["trunk"]) == ("merge", 1, "main")
    assert "merge" in imi("status", cwd=repo.path).out


# S2.38: a worktree without a claim is unclaimed; claims are shown with their state
def test_status_shows_owners(tmp_path: Path, busy: Repo) -> None:
    from imi_monitor import host

    name = register(tmp_path, busy)
    connection = db.connect(database(tmp_path))
    here = host.identify_process(os.getpid())
    dead = host.ProcessIdentity(here.host, "another-boot/x", 4, "1")
    for worktree, agent, process in (("feat-api", "claude-1", here), ("fix-bug", "codex-1", dead)):
        db.transact(connection, claims.grant, name, worktree, claims.ClaimRequest(agent, process))
    connection.close()
    rows = by_name(imi("--json", "status", cwd=busy.path).data)
    assert (rows["feat-api"]["agent_id"], rows["feat-api"]["claim_state"]) == ("claude-1", "held")
    assert (rows["fix-bug"]["agent_id"], rows["fix-bug"]["claim_state"]) == ("codex-1", "dead")
    assert (rows["odd"]["agent_id"], rows["odd"]["claim_state"]) == (None, "free")
    shown = imi("status", cwd=busy.path).out
    assert "claude-1" in shown and "codex-1 (dead)" in shown and "unclaimed" in shown
    narrow = imi("status", cwd=busy.path, env={"COLUMNS": "60"}).out
    assert "feat-api (claude-1)\n  ✓ 3 commits ahead" in narrow and "odd (unclaimed)" in narrow


def test_an_owner_written_by_imi_itself_is_shown(tmp_path: Path, busy: Repo) -> None:
    name = register(tmp_path, busy)
    connection = db.connect(database(tmp_path))
    path = str(busy.path.parent / "feat-api")
    db.transact(connection, worktrees.register, name, "feat-api", branch="feat/api", kind="feat", path=path)
    connection.execute("UPDATE worktrees SET agent_id = 'claude-9'")
    connection.close()
    row = by_name(imi("--json", "list", cwd=busy.path).data)["feat-api"]
    assert (row["agent_id"], row["claim_state"]) == ("claude-9", "held")


@pytest.mark.parametrize("width", [20, 40, 79, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(busy: Repo, width: int) -> None:
    from imi_monitor.model.columns import cell_width

    wide = busy.path.parent / "日本語の作業"
    busy.git("worktree", "add", "-q", "-b", "fix/日本語", str(wide))
    for verb in ("status", "list"):
        lines = imi(verb, cwd=busy.path, env={"COLUMNS": str(width)}).out.splitlines()
        assert lines and all(cell_width(line) <= width for line in lines)


def test_list_starts_no_git_process(busy: Repo, tmp_path: Path) -> None:
    trap = tmp_path / "bin"
    trap.mkdir()
    (trap / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    (trap / "git").chmod(0o755)
    ran = imi("--json", "list", cwd=busy.path, env={"PATH": str(trap)})
    rows = by_name(ran.data)
    assert ran.data["count"] == 5 and not (tmp_path / "asked").exists()
    assert set(rows["odd"]) >= {"worktree_name", "type", "branch", "agent_id", "path", "missing", "locked", "prunable"}
    assert rows["feat-gone"]["prunable"] == "its folder is gone"


def test_without_git_the_status_is_unknown_not_clean(busy: Repo, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    rows = by_name(imi("--json", "status", cwd=busy.path, env={"PATH": str(tmp_path / "bin")}).data)
    assert all(row["staged"] is None and row["error"] for row in rows.values())
    assert "git is not installed" in str(rows["app"]["error"])


def test_list_shows_the_states_of_worktrees(busy: Repo) -> None:
    busy.git("worktree", "lock", "--reason", "on a stick", str(busy.path.parent / "odd"))
    rows = by_name(imi("--json", "list", cwd=busy.path).data)
    assert (rows["odd"]["locked"], rows["odd"]["missing"]) == ("on a stick", False)
    text = imi("ls", cwd=busy.path).out
    assert "locked: on a stick" in text and "missing: its folder is gone" in text and str(busy.path) in text


def test_a_registered_worktree_that_git_does_not_list_is_missing(tmp_path: Path, repo: Repo) -> None:
    name = register(tmp_path, repo)
    connection = db.connect(database(tmp_path))
    db.transact(
        connection, worktrees.register, name, "feat-x", branch="feat/x", kind="feat", path=str(tmp_path / "feat-x")
    )
    connection.close()
    for verb in ("list", "status"):
        row = by_name(imi("--json", verb, cwd=repo.path).data)["feat-x"]
        assert (row["missing"], row["branch"], row["prunable"]) == (True, "feat/x", "git does not list it any more")


def test_status_selects_repositories(tmp_path: Path, repo: Repo) -> None:
    other = Repo.create(tmp_path / "tool")
    assert [register(tmp_path, one) for one in (repo, other)] == ["app", "tool"]
    outside = tmp_path / "home"

    def repos(action: Action, cwd: Path, *, repo: str | None = None, **values: object) -> set[str]:
        with Context(str(cwd), repo=repo) as context:
            rows = action.run(context, Request("", values)).data["worktrees"]
        assert isinstance(rows, list)
        return {str(row["repo"]) for row in rows}

    for action in status_action.ACTIONS:
        assert repos(action, repo.path) == {"app"}
        assert repos(action, repo.path / "src") == {"app"}
        assert repos(action, repo.path, repo="tool") == {"tool"}
        assert repos(action, repo.path, all=True) == {"app", "tool"}
        assert repos(action, outside) == {"app", "tool"}
        assert repos(action, outside, repo="tool") == {"tool"}
    for word in ("tool", str(other.path)):
        assert {row["repo"] for row in imi("--json", "status", word, cwd=repo.path).data["worktrees"]} == {"tool"}
    assert "Repo" in imi("list", "--all", cwd=repo.path).out


def test_a_single_word_is_a_repository_or_a_worktree(tmp_path: Path, repo: Repo) -> None:
    register(tmp_path, repo)
    repo.worktree("feat-api")
    for words in (("status", "feat-api"), ("status", "api"), ("status", "app", "feat-api")):
        assert list(by_name(imi("--json", *words, cwd=repo.path).data)) == ["feat-api"]
    assert list(by_name(imi("--json", "status", "app", cwd=tmp_path / "home").data)) == ["app", "feat-api"]
    refused = imi("status", "nope", cwd=repo.path)
    assert refused.code == 1 and "nope" in refused.err and "imi list" in refused.err


def test_status_warns_of_a_registered_repository_that_is_gone(tmp_path: Path, repo: Repo) -> None:
    register(tmp_path, repo)
    register(tmp_path, Repo.create(tmp_path / "tool"))
    shutil.rmtree(tmp_path / "tool")
    ran = imi("status", "--all", cwd=repo.path)
    assert ran.code == 0 and "app" in ran.out and "tool is registered" in ran.err


def test_status_without_any_repository_is_one_sentence(tmp_path: Path) -> None:
    for verb in ("list", "status"):
        ran = imi(verb, cwd=tmp_path / "home")
        assert ran.code == 1 and ran.err.count("\n") == 1 and "not inside a git repository" in ran.err


def test_status_of_a_bare_repository_without_worktrees(tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "lone.git"), cwd=tmp_path)
    for verb in ("list", "status"):
        ran = imi(verb, cwd=tmp_path / "lone.git")
        assert ran.code == 0 and "no worktrees yet" in ran.out


def test_status_of_a_repository_without_commits(tmp_path: Path) -> None:
    git("init", "-q", str(tmp_path / "new"), cwd=tmp_path)
    (tmp_path / "new" / "file").write_text("x")
    row = by_name(imi("--json", "status", cwd=tmp_path / "new").data)["new"]
    assert (row["branch"], row["head"], row["untracked"], row["error"]) == ("main", None, 1, None)


def test_status_makes_hostile_names_safe(repo: Repo) -> None:  # T3
    nasty = os.fsencode(repo.path) + b"/bad\x1b[31m\xff\n"
    with open(nasty, "w") as file:
        file.write("x")
    repo.git("worktree", "lock", "--reason", "a\x1b]0;t\x07b", str(repo.worktree("feat-x").path))
    shown = imi("status", cwd=repo.path).out + imi("list", cwd=repo.path).out
    assert not [char for char in shown if ord(char) < 32 and char != "\n"] and "\\x1b[31m" in shown
    raw = imi("--json", "status", "app", cwd=repo.path).out
    assert raw.isascii() and json.loads(raw)["data"]["worktrees"][0]["last_change_path"].startswith("bad\x1b[31m")


def test_status_and_list_change_nothing(busy: Repo, tmp_path: Path) -> None:
    index = busy.path / ".git" / "index"
    before = index.stat().st_mtime_ns
    for verb in ("list", "status"):
        imi(verb, cwd=busy.path)
    connection = db.connect(database(tmp_path))
    assert index.stat().st_mtime_ns == before
    assert events.last_seq(connection) == 0 and repositories.list_repositories(connection) == []
    connection.close()


def slow_git(tmp_path: Path, wait: str) -> str:
    """A PATH whose git takes its time for `status`."""
    real = shutil.which("git")
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *" status "*) : > {folder}/started; {wait};; esac\nexec {real} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.skipif(os.cpu_count() == 1, reason="one processor reads one after the other")
def test_worktrees_are_read_concurrently(busy: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from imi_monitor.actions.status import status_reader

    count = f"ls {tmp_path}/slow/*.waits | wc -l"
    monkeypatch.setenv(
        "PATH", slow_git(tmp_path, f": > {tmp_path}/slow/$$.waits; until [ $({count}) -gt 1 ]; do sleep 0.02; done")
    )
    with Context(str(busy.path)) as context:
        readings = status_reader.read_states(context, [context.repository()])
    assert [reading.known.worktree_name for reading in readings if reading.staged is not None] == [
        "app",
        "feat-api",
        "fix-bug",
        "odd",
    ]


def test_ctrl_c_does_not_wait_for_a_hanging_git(busy: Repo, tmp_path: Path) -> None:  # G5
    process = subprocess.Popen(
        imi_argv("status"),
        cwd=busy.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": slow_git(tmp_path, "sleep 50")},
    )
    deadline = time.monotonic() + LIMIT
    while not (tmp_path / "slow" / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (130, "") and "interrupted" in err and "Traceback" not in err
    assert time.monotonic() - started < 40  # git would take 50


def test_status_runs_one_git_process_for_each_worktree_and_four_for_all(
    busy: Repo, count_git: Callable[[], int]
) -> None:
    from imi_monitor.actions.status import status_reader

    for number in range(4):
        busy.worktree(f"more-{number}")
        made = Repo(busy.path.parent / f"more-{number}")
        made.write("new", "x")
        made.commit(f"own {number}")
    with Context(str(busy.path)) as context:
        readings = status_reader.read_states(context, [context.repository()])
    unread = [one for one in readings if one.error is not None]
    assert count_git() == len(readings) - len(unread) + 4
    shown = {one.known.worktree_name: (one.trunk_ahead, one.trunk_behind) for one in readings}
    assert [shown[f"more-{number}"] for number in range(4)] == [(1, 0)] * 4
    assert all(one.last_commit_at for one in readings if one not in unread)


def test_status_json_has_the_running_agents_of_each_worktree(repo: Repo) -> None:
    for name in ("feat-a", "feat-b"):
        repo.worktree(name)
    assert {one["agents"] for one in imi("status", "--json", cwd=repo.path).data["worktrees"]} == {None}, "unknown"
    assert imi("claim", "feat-a", "--agent", "ann", cwd=repo.path).code == 0
    here, boot, now = host.hostname(), host.boot(), times.stamp()
    with closing(db.connect(paths.default_database())) as connection:
        (name,) = connection.execute("SELECT repo_name FROM claims").fetchone()
        for ident, pid, tree, seen in (("1", os.getpid(), "feat-a", now), ("2", 2**22 + 7, "feat-b", now)):
            connection.execute(
                "INSERT INTO sessions (id, host, cli, repo_name, worktree_name, agent_id, status, status_at, boot, pid,"
                " pid_started, seen_at, created_at, updated_at) VALUES (?1, ?2, 'claude', ?3, ?4, ?1, 'running', ?5, ?6, ?7,"
                " ?8, ?5, ?5, ?5)",
                (f"claude:{ident}", here, name, tree, seen, boot, pid, host.start_time(pid) or "1"),
            )
    rows = {one["worktree_name"]: one["agents"] for one in imi("status", "--json", cwd=repo.path).data["worktrees"]}
    assert [(one["cli"], one["state"], one["session"]) for one in rows["feat-a"]] == [("claude", "running", "claude:1")]
    assert rows["feat-b"] == [], "its process is gone"
    with closing(db.connect(paths.default_database())) as connection:
        connection.execute("UPDATE sessions SET seen_at = '2025-01-01T00:00:00.000000+00:00'")
    rows = {one["worktree_name"]: one["agents"] for one in imi("status", "--json", cwd=repo.path).data["worktrees"]}
    assert [one["state"] for one in rows["feat-a"]] == ["unknown"], "no monitor has seen it lately"
    assert rows["feat-b"] is None
