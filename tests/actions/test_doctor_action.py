"""`imi doctor`: each check, passing and failing; it works with a broken registry and changes nothing."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.setup import doctor_action
from imi_monitor.store import db, events, operations, registry_file, schema, worktrees
from tests.helpers import imi, tree_hash, use_temporary_folder
from tests.limits import LIMIT


def examine(path: str | None = None) -> Outcome:
    with Context(database=path) as context:
        return doctor_action.DoctorAction().run(context, Request("doctor", {}))


def checks(path: str | None = None) -> dict[str, dict[str, Any]]:
    found = examine(path).data["checks"]
    assert isinstance(found, list)
    return {check["name"]: check for check in found}


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "place" / "iMi.db")
    db.connect(made).close()
    return made


def test_doctor_prints_a_line_per_check_and_the_same_in_json(path: str) -> None:
    human, script = imi("doctor", "--db", path), imi("doctor", "--db", path, "--json")
    assert human.code == script.code == 0, human
    assert human.err == ""
    names = [check["name"] for check in script.data["checks"]]
    for name in (
        "git",
        "registry",
        "journal",
        "integrity",
        "sqlite",
        "ballast",
        "worktrees",
        "operations",
        "shell",
        "gh",
        "config",
        "servers",
    ):
        assert name in names
    lines = human.out.splitlines()
    assert len(lines) == len(names) + 1
    assert all(
        line.startswith(f"{check['state']:<4}  {check['name']}: ")
        for line, check in zip(lines, script.data["checks"], strict=False)
    )
    advised = [check for check in script.data["checks"] if check["state"] != "ok"]
    assert all(check["advice"] for check in advised)


def test_doctor_creates_no_registry(tmp_path: Path) -> None:
    before = tree_hash(tmp_path)
    ran = imi("doctor")
    assert ran.code == 0 and "none yet at" in ran.out
    assert _without_caches(tree_hash(tmp_path)) == before


def _without_caches(tree: dict[str, str]) -> dict[str, str]:
    """Without the folder that a real Zellij makes when it is asked for its version."""
    return {
        name: value for name, value in tree.items() if name != "home/.cache" and not name.startswith("home/.cache/")
    }


def test_doctor_summarises_the_registry(path: str) -> None:
    found = checks(path)
    assert found["registry"]["state"] == "ok"
    assert found["registry"]["says"].startswith(f"{path}, schema {schema.VERSION} of {schema.VERSION}, on ")
    assert found["journal"]["says"] == "write-ahead log"
    assert found["integrity"]["says"] == "quick check passed"


def test_doctor_fails_on_an_unusable_registry(path: str) -> None:
    Path(path).write_bytes(b"x" * 5000)
    ran = imi("doctor", "--db", path)
    assert ran.code == 1
    assert "fail  registry: " in ran.out and "counts as claimed" in ran.out
    assert ran.out.splitlines()[-1].startswith("1 failure, ")
    assert imi("doctor", "--db", path, "--json").json["success"] is False


def test_doctor_fails_on_a_corrupt_index(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO trust VALUES ('h', 'd', 'f', 't')")
        connection.execute("INSERT INTO events (id, type, host, occurred_at) VALUES ('i', 'old', 'h', 't')")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'events_by_worktree'")
        connection.execute("PRAGMA writable_schema = OFF")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE INDEX events_by_worktree ON events (seq) WHERE 0")
    found = checks(path)
    assert found["integrity"]["state"] == "fail", found["integrity"]
    assert examine(path).exit_status == 1


def test_doctor_warns_when_wal_mode_is_not_available(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN")
        other.execute("SELECT * FROM events").fetchall()
        found = checks(path)
    assert found["journal"]["state"] == "warn" and "delete" in found["journal"]["says"]


def test_doctor_names_worktrees_without_a_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()

    def put(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO repositories VALUES ('r', 'app', '/x', '', 'main', 't', 't', 1)")
        connection.execute("INSERT INTO repositories VALUES ('s', 'far', '/y', '', 'main', 't', 't', 1)")
        connection.execute("INSERT INTO places VALUES ('far', 'another-machine', '/y/.git')")
        for name, repo in (("feat-a", "app"), ("feat-b", "app"), ("feat-far", "far")):
            worktrees.register(connection, repo, name, branch="b", kind="feat", path=str(tmp_path / "none" / name))
        worktrees.register(connection, "app", "feat-there", branch="b", kind="feat", path=str(tmp_path / "there"))

    with closing(db.connect(path)) as connection:
        db.transact(connection, put)
    found = checks(path)["worktrees"]
    assert found["state"] == "warn"
    assert found["says"] == "2 registered worktrees without a directory: feat-a, feat-b"
    assert "imi repair" in found["advice"] and "imi prune" in found["advice"]


def test_doctor_reports_unfinished_operations_without_recovering_them(path: str) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait(LIMIT)
    with closing(db.connect(path)) as connection:
        for name in ("feat-dead", "feat-busy"):
            db.transact(connection, operations.begin, "create", "app", name, {})
        db.transact(
            connection,
            lambda inner: inner.execute("UPDATE operations SET pid = ? WHERE worktree_name = 'feat-dead'", (dead.pid,)),
        )
    for _ in range(2):
        found = checks(path)["operations"]
        assert found["state"] == "warn" and found["says"] == "1 operation left unfinished: create feat-dead"
    ran = imi("doctor", "--db", path)  # the real command does not settle it either: it shows what there is
    assert "create feat-dead" in ran.out


def test_doctor_restores_the_ballast_or_warns(path: str) -> None:
    ballast = Path(registry_file.ballast_path(path))
    ballast.unlink()
    assert checks(path)["ballast"]["state"] == "ok" and ballast.is_file()
    ballast.unlink()
    ballast.mkdir()  # there is no room for the file
    assert checks(path)["ballast"]["state"] == "warn"


# What is around it --------------------------------------------------------------------------------------------------


def test_doctor_checks_the_git_version(shim: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shim("echo git version 2.20.1")
    found = checks()["git"]
    assert (found["state"], found["says"]) == ("warn", f"2.20.1 at {folder}/git")
    monkeypatch.setenv("PATH", str(folder.parent / "home"))
    outcome = examine()
    assert outcome.lines[0] == "fail  git: git is not installed, or not in PATH; install git 2.38 or newer"
    assert outcome.exit_status == 1


@pytest.mark.parametrize(
    ("shell", "advice"),
    [
        ("/bin/zsh", "~/.zshrc"),
        ("/usr/bin/bash", "~/.bashrc"),
        ("/usr/bin/fish", "config.fish"),
        ("/bin/tcsh", "imi help shell-init"),
    ],
)
def test_doctor_checks_the_shell_function(shell: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMI_SHELL", raising=False)
    monkeypatch.setenv("SHELL", shell)
    found = checks()["shell"]
    assert found["state"] == "warn" and advice in found["advice"]
    monkeypatch.setenv("IMI_SHELL", "zsh")
    found = checks()["shell"]
    assert found["state"] == "ok" and "the function for zsh is active" in found["says"]


@pytest.mark.parametrize(
    ("script", "state", "says"),
    [("exit 0", "ok", "logged in"), ("echo $T; exit 0", "ok", "logged in"), ("exit 4", "warn", "not logged in")],
)
def test_doctor_checks_gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, state: str, says: str) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "gh"
    monkeypatch.setenv("T", "hunter2")
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    found = checks()["gh"]
    assert found["state"] == state and says in found["says"]
    assert "hunter2" not in str(found)
    program.write_text("#!/nowhere/at/all\n")
    assert checks()["gh"]["state"] == "warn"
    program.unlink()
    assert checks()["gh"]["state"] == "ok"


def test_doctor_reports_a_broken_configuration_and_runs_the_other_checks() -> None:
    folder = Path(os.environ["HOME"]) / ".config" / "iMi"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("nonsense = 1\n")
    ran = imi("doctor")
    assert ran.code == 1
    assert "fail  config: unknown setting 'nonsense'" in ran.out
    assert "ok    git: " in ran.out


def test_doctor_checks_configured_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("IMI_AMQP_URL", f"amqp://u:hunter2@127.0.0.1:{port}/v")
        monkeypatch.setenv("IMI_REDIS_URL", f"redis://:hunter2@127.0.0.1:{port}")
        monkeypatch.setenv("IMI_POSTGRES_URL", "mysql://u:hunter2@db")
        outcome = examine()
    found = {check["name"]: check for check in outcome.data["checks"]}  # type: ignore[attr-defined]
    assert (found["amqp"]["state"], found["amqp"]["says"]) == ("ok", f"127.0.0.1:{port} answers")
    assert "names of changed files" in found["team"]["says"] and "no command lines" in found["terminals"]["says"]
    assert found["redis"]["state"] == "warn" and "does not answer within" in found["redis"]["says"]
    assert (
        found["postgres"]["state"] == "fail" and "does not begin with one of postgresql://" in found["postgres"]["says"]
    )
    assert outcome.exit_status == 1
    assert "hunter2" not in str(outcome.lines) + str(outcome.data)  # T4
    assert host.hostname()


def test_doctor_tries_to_write_and_to_make_a_worktree(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checks(path)
    assert found["writing"]["state"] == "ok" and "makes worktrees" in found["git"]["says"]
    assert not list(tmp_path.glob("imi-doctor-*"))
    use_temporary_folder(monkeypatch, tmp_path / "missing")
    broken = checks(path)["git"]
    assert broken["state"] == "fail" and "cannot make a worktree in a scratch repository" in broken["says"]


def test_doctor_tries_to_create_the_registrys_folder() -> None:
    found = checks("/sys/nowhere/iMi.db")["registry"]  # writable by its mode for root, but refused by the kernel
    assert found["state"] == "fail" and "cannot be created" in found["says"]


def test_the_doctor_says_how_far_each_sink_is(path: str) -> None:
    def record(connection: sqlite3.Connection) -> None:
        events.record(connection, "worktree.moved", "app", "feat-x", data={"path": "/w"})

    def line() -> str:
        return next(line for line in imi("doctor", "--db", path).out.split("\n") if "events to history" in line)

    with closing(db.connect(path)) as connection:
        db.transact(connection, record)
        assert line().startswith("ok    events to history: nothing was delivered yet")
        assert imi("archive", "--db", path).code == 0
        assert line() == "ok    events to history: has every event"
        (Path(path).parent / "history.db").write_bytes(b"no database" * 1000)
        db.transact(connection, record)
    assert imi("archive", "--db", path).code == 1
    assert "warn  events to history: 1 event waits for" in line() and "is damaged" in line()


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("0.43.1", "names of tabs do not show states, a worktree is found by its tab's name, enter opens the worktree"),
        ("0.44.1", "0.44.1: a new tab takes the focus, `imi say` cannot type into a pane"),
        ("0.45.1", "0.45.1"),
    ],
)
def test_doctor_says_what_an_older_zellij_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, says: str
) -> None:
    program = tmp_path / "tools" / "zellij"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho zellij {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    found = checks()["zellij"]
    assert says in found["says"] and found["state"] == ("ok" if version == "0.45.1" else "warn")
    assert found["state"] == "ok" or found["advice"] == "0.45 or newer does all of it"
