"""`imi command`, `imi exec` and the commands that a repository declares."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor import config
from imi_monitor.actions.context import Context
from imi_monitor.model import own_command
from imi_monitor.model.errors import UsageError
from imi_monitor.store import events
from tests.helpers import Repo, imi, imi_argv
from tests.ui.pty_kit import Terminal

FACTS = "echo $IMI_WORKTREE $IMI_WORKTREE_PATH $IMI_REPOSITORY $IMI_BRANCH pr=$IMI_PR; pwd"


@pytest.fixture
def declare(own_home: Path) -> Callable[[str], None]:
    """Write the user's config file."""

    def write(text: str) -> None:
        path = Path(config.paths.config_file())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def in_terminal(repo: Repo, *words: str, answers: str = "", env: dict[str, str] | None = None) -> str:
    with Terminal(imi_argv(*words), cwd=repo.path, env=env) as terminal:
        if answers:
            terminal.until(b"or nothing to cancel")
            terminal.send(answers.encode())
        terminal.ended()
        return " ".join(terminal.text.split())


def test_a_command_runs_in_the_named_worktrees_with_their_facts(repo: Repo, declare: Callable[[str], None]) -> None:
    declare(f"[commands]\nfacts = '{FACTS}'\n")
    one, two = repo.worktree("feat-x"), repo.worktree("feat-y")
    ran = imi("command", "facts", "feat-x", "y", cwd=repo.path, env={"IMI_PR": "9", "GIT_DIR": "/nowhere"})
    assert ran.code == 0, ran
    assert ran.out.splitlines() == [
        f"feat-x {one.path} app feat/x pr=",
        str(one.path),
        f"feat-y {two.path} app feat/y pr=",
        str(two.path),
    ]
    assert imi("command", "facts", cwd=one.path).out.splitlines()[1] == str(one.path), "the one around the caller"


def test_the_exit_status_is_the_commands_and_is_recorded(repo: Repo, declare: Callable[[str], None]) -> None:
    declare(
        '[commands]\nfail = "echo seen; TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz exit 7"\nkill = "kill -9 $$"\n'
    )
    repo.worktree("feat-x")
    ran = imi("command", "fail", "feat-x", "--json", cwd=repo.path)
    assert (ran.code, ran.err) == (7, "seen\n"), "its output does not mix with the JSON"
    assert ran.json["success"] is False
    data = ran.json["data"]
    assert data["ended"][0].keys() == {"worktree_name", "status", "seconds"} and data["status"] == 7
    assert imi("command", "kill", "feat-x", cwd=repo.path).code == 137
    assert imi("exec", "feat-x", "--", "sh", "-c", "exit 3", cwd=repo.path).code == 3
    with Context(str(repo.path)) as context:
        found = events.list_events(context.connection, kinds=("command.ended",))
    kept = [json.loads(one.data) for one in found]
    assert [(one.get("name"), one["status"]) for one in kept] == [("fail", 7), ("kill", 137), (None, 3)]
    assert "ghp_0123" not in kept[0]["line"] and kept[2]["line"] == "sh -c 'exit 3'"


def test_status_shows_how_the_last_program_of_each_worktree_ended(repo: Repo) -> None:
    assert imi("feat", "x", cwd=repo.path).code == 0
    for status in (0, 3):
        imi("exec", "feat-x", "--", "sh", "-c", f"exit {status}", cwd=repo.path)

    def last() -> dict[str, dict[str, object] | None]:
        rows = imi("status", "--json", cwd=repo.path).data["worktrees"]
        return {one["worktree_name"]: one["last_command"] for one in rows}

    found = last()
    assert found["app"] is None
    assert found["feat-x"] is not None and (found["feat-x"]["status"], found["feat-x"]["line"]) == (3, "sh -c 'exit 3'")
    assert found["feat-x"].keys() == {"line", "status", "seconds", "ended_at"}
    imi("remove", "feat-x", cwd=repo.path)
    imi("feat", "x", cwd=repo.path)
    assert last()["feat-x"] is None, "that was another worktree"


def test_exec_runs_the_program_as_it_is_typed(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    ran = imi("exec", "x", "--", "printf", "%s|", "a b", "$HOME", "--json", cwd=repo.path)
    assert (ran.code, ran.out) == (0, "a b|$HOME|--json|")
    (tree.path / "run.sh").write_text("#!/bin/sh\ncat\n")
    (tree.path / "run.sh").chmod(0o755)
    assert imi("exec", "feat-x", "--", "./run.sh", cwd=repo.path, stdin="typed").out == "typed"
    missing = imi("exec", "feat-x", "--", "no-such-program", cwd=repo.path)
    assert missing.code == 127 and "not found" in missing.err
    assert imi("exec", "feat-x", cwd=repo.path).code == 2
    assert imi("exec", "nothing", "--", "true", cwd=repo.path).code == 1


def test_a_relative_path_entry_is_no_folder_of_the_worktree(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    (tree.path / "ls").write_text("#!/bin/sh\necho planted\n")
    (tree.path / "ls").chmod(0o755)
    ran = imi("exec", "feat-x", "--", "ls", cwd=repo.path, env={"PATH": f".:{os.environ['PATH']}"})
    assert ran.code == 0 and "planted" not in ran.out


def test_it_works_while_the_registry_cannot_be_used(repo: Repo) -> None:
    repo.worktree("feat-x")
    database = Path(config.paths.default_database())
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_text("no registry")
    ran = imi("exec", "feat-x", "--", "echo", "there", cwd=repo.path)
    assert (ran.code, ran.out) == (0, "there\n")


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (3, "must be a command, or a table"),
        ({"run": ""}, "must say what it runs"),
        ({"run": "x", "kee": "y"}, "commands.test.kee"),
        ({"run": "x", "pane": "no"}, "true or false"),
        ({"run": 3}, "must be a text"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(value: object, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        own_command.parse("test", value, "config.toml")
    assert word in caught.value.sentence and "config.toml" in caught.value.sentence
    with pytest.raises(UsageError):
        own_command.parse("a b", "x", "config.toml")


def test_a_wrong_command_names_its_line_and_hurts_no_claim(repo: Repo, declare: Callable[[str], None]) -> None:
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "a", cwd=repo.path).code == 0
    declare('[commands]\ngood = "true"\n[commands.bad]\nrun = 3\n')
    ran = imi("commands", cwd=repo.path)
    assert ran.code == 2 and "config.toml line 3" in ran.err, ran
    assert imi("heartbeat", "feat-x", "--agent", "a", cwd=repo.path).code == 0


def test_a_cluster_declares_no_commands_in_its_settings(cluster: Repo) -> None:
    """Agents write there, and nothing pins that file."""
    (cluster.path.parent / ".iMi" / "config.toml").write_text('[commands]\ntest = "touch ran"\n')
    ran = imi("commands", cwd=cluster.path)
    assert ran.code == 2 and "[commands] is not allowed in" in ran.err


def declared_by_repository(repo: Repo, text: str = '[commands]\ntest = "touch ran"\n') -> Path:
    path = repo.write(".iMi/commands.toml", text)
    repo.worktree("feat-x")
    return path


def test_a_repositorys_commands_wait_for_a_person(repo: Repo) -> None:
    path = declared_by_repository(repo)
    refused = imi("command", "test", "feat-x", cwd=repo.path)
    assert refused.code == 1 and "not trusted" in refused.err
    without = imi("trust", cwd=repo.path)
    assert (
        without.code == 1 and "without a terminal no person can confirm" in without.err and "touch ran" in without.err
    )
    assert imi("trust", "--json", cwd=repo.path).json["code"] == "not-confirmed"
    for variable in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"):
        assert "in an agent's shell no person" in in_terminal(repo, "trust", env={variable: "s1"})
    assert "not-confirmed" not in in_terminal(repo, "trust", answers="1\n")
    assert imi("command", "test", "feat-x", cwd=repo.path).code == 1, "cancelled"
    shown = in_terminal(repo, "trust", answers="2\n")
    assert "test: touch ran" in shown and "app is trusted now" in shown
    assert imi("command", "test", "feat-x", cwd=repo.path).code == 0
    assert (repo.path.parent / "feat-x" / "ran").exists()
    path.write_text('[commands]\ntest = "touch other"\n')
    assert imi("command", "test", "feat-x", cwd=repo.path).code == 1, "a change asks again"
    show = imi("trust", "--show", "--json", cwd=repo.path).data
    assert show["trusted"] is True and show["commands_trusted"] is False
    in_terminal(repo, "trust", answers="2\n")
    assert imi("command", "test", "feat-x", cwd=repo.path).code == 0
    imi("trust", "--revoke", cwd=repo.path)
    assert imi("command", "test", "feat-x", cwd=repo.path).code == 1


def test_the_users_command_wins_over_the_repositorys(repo: Repo, declare: Callable[[str], None]) -> None:
    declared_by_repository(repo, '[commands]\ntest = "echo theirs"\nother = "echo theirs"\n')
    declare('[commands]\ntest = "echo mine"\n')
    assert imi("command", "test", "feat-x", cwd=repo.path).out == "mine\n"
    rows = imi("commands", "--json", cwd=repo.path).data["commands"]
    assert [(one["name"], one["origin"], bool(one["why_not"])) for one in rows] == [
        ("test", "user", False),
        ("test", "repository", True),
        ("other", "repository", True),
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[commands", "not valid TOML"),
        ('[ui]\ntheme = "x"\n', "only [commands]"),
        ('[commands.test]\nrun = "x"\nkey = "c"\n', "has no key"),
        ("[commands]\n" + "# much\n" * 20_000, "larger than 64 KB"),
    ],
)
def test_a_wrong_file_of_a_repository_is_a_sentence(repo: Repo, text: str, word: str) -> None:
    declared_by_repository(repo, text)
    listed = imi("commands", cwd=repo.path)
    assert listed.code == 0 and word in listed.err, "the user's commands stay usable"
    trusted = imi("trust", cwd=repo.path)
    assert trusted.code == 2 and word in trusted.err


def test_a_named_pipe_instead_of_the_file_blocks_nothing(repo: Repo) -> None:
    (repo.path / ".iMi").mkdir()
    os.mkfifo(repo.path / ".iMi" / "commands.toml")
    assert "not a regular file" in imi("commands", cwd=repo.path).err


def test_ctrl_c_is_the_commands(repo: Repo, declare: Callable[[str], None]) -> None:
    declare("""[commands]\nwait = 'trap "echo caught; exit 4" INT; echo ready; sleep 60 & wait'\n""")
    repo.worktree("feat-x")
    with Terminal(imi_argv("command", "wait", "feat-x"), cwd=repo.path) as terminal:
        terminal.until(b"ready")
        terminal.send(b"\x03")
        assert terminal.ended() == 4
        assert b"caught" in terminal.output and b"ended with status 4" in terminal.output
