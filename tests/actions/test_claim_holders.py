"""An owner is an agent id and a living holder: another process or terminal that says the same name is another holder."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.store import claims, db
from tests.helpers import ROOT, Ran, Repo, imi, imi_argv
from tests.limits import LIMIT, read_line, read_rest


class Shell:
    """A shell that leads a session of its own, as in a terminal, and stays open."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh"],
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        self.pid = self._process.pid

    def run(self, command: str) -> Ran:
        """The exit status and the whole output of one command line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\ncode=$?; echo\n")
        self._process.stdin.write("echo ended $code\n")
        self._process.stdin.flush()
        lines = []
        while not (line := read_line(self._process.stdout)).startswith("ended "):
            assert line, "the shell ended"
            lines.append(line)
        return Ran(int(line.split()[1]), "".join(lines), "".join(lines))

    def imi(self, *words: str) -> Ran:
        return self.run(shlex.join(imi_argv(*words)))

    def close(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def shell(repo: Repo) -> Iterator[Callable[..., Shell]]:
    repo.worktree("one")
    made: list[Shell] = []

    def start(**environment: str) -> Shell:
        made.append(Shell(repo.path, environment))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["/bin/sleep", "99"]) for _ in range(2)]
    yield made
    for one in made:
        one.kill()
        one.wait(LIMIT)


@pytest.fixture
def one(repo: Repo) -> Repo:
    repo.worktree("one")
    return repo


def _row() -> tuple[object, ...]:
    connection = db.connect(paths.default_database())
    try:
        row: tuple[object, ...] = connection.execute("SELECT epoch, pid, session FROM claims").fetchone()
        return row
    finally:
        connection.close()


def test_a_second_living_process_of_the_same_name_is_refused(
    one: Repo, sleepers: list[subprocess.Popen[bytes]]
) -> None:  # H1
    first, second = sleepers
    assert imi("claim", "one", "--pid", str(first.pid), cwd=one.path).code == 0
    refused = imi("claim", "one", "--pid", str(second.pid), cwd=one.path)
    assert refused.code == 1
    assert f"its process {first.pid} (sleep)" in refused.err
    assert "--session ID" in refused.err
    assert _row()[:2] == (1, first.pid)
    second.kill()
    second.wait(LIMIT)
    assert imi("claim", "one", "--agent", "other", cwd=one.path).code == 1, "the first process lives"


def test_one_of_ten_living_processes_of_one_name_claims(one: Repo) -> None:  # H1
    sleepers = [subprocess.Popen(["/bin/sleep", "99"]) for _ in range(10)]
    running = [
        subprocess.Popen(imi_argv("claim", "one", "--pid", str(sleeper.pid)), cwd=one.path, stderr=subprocess.DEVNULL)
        for sleeper in sleepers
    ]
    codes = sorted(process.wait(LIMIT) for process in running)
    for sleeper in sleepers:
        sleeper.kill()
        sleeper.wait(LIMIT)
    assert codes == [0, *[1] * 9]


def test_a_second_process_of_the_same_name_waits_in_line(one: Repo, sleepers: list[subprocess.Popen[bytes]]) -> None:
    first, second = sleepers
    imi("claim", "one", "--pid", str(first.pid), cwd=one.path)
    late = imi("claim", "one", "--pid", str(second.pid), "--wait", "0.3", cwd=one.path)
    assert (late.code, "waited 0.3 s" in late.err) == (1, True)
    waiting = subprocess.Popen(imi_argv("claim", "one", "--pid", str(second.pid), "--wait", "30"), cwd=one.path)
    first.kill()
    first.wait(LIMIT)
    assert waiting.wait(LIMIT) == 0
    assert _row()[1] == second.pid


@pytest.mark.parametrize("verb", [("verify-lock",), ("heartbeat",), ("release", "--dirty-ok")])
def test_another_process_of_the_same_name_is_not_the_holder(
    one: Repo, sleepers: list[subprocess.Popen[bytes]], verb: tuple[str, ...]
) -> None:
    first, second = sleepers
    imi("claim", "one", "--pid", str(first.pid), cwd=one.path)
    name, *more = verb
    other = imi(name, "one", *more, cwd=one.path, env={"IMI_AGENT_PID": str(second.pid)})
    assert (other.code, f"its process {first.pid}" in other.err) == (1, True)
    assert _row()[1] == first.pid
    assert imi(name, "one", *more, cwd=one.path, env={"IMI_AGENT_PID": str(first.pid)}).code == 0


def test_the_given_session_proves_the_holder(one: Repo, sleepers: list[subprocess.Popen[bytes]]) -> None:
    first, second = sleepers
    claimed = imi("claim", "one", "--pid", str(first.pid), "--session", "s-1", "--json", cwd=one.path)
    assert claimed.data["session"] == "s-1"
    assert imi("claim", "one", "--pid", str(second.pid), "--session", "s-2", cwd=one.path).code == 1
    again = imi("claim", "one", "--pid", str(second.pid), "--json", cwd=one.path, env={"IMI_SESSION_ID": "s-1"})
    assert (again.data["how"], again.data["epoch"], again.data["pid"]) == ("renewed", 1, second.pid)


def test_a_renewal_never_forgets_a_living_process(one: Repo, sleepers: list[subprocess.Popen[bytes]]) -> None:
    first, second = sleepers
    imi("claim", "one", "--pid", str(first.pid), cwd=one.path)
    assert imi("claim", "one", "--json", cwd=one.path).data["pid"] == first.pid
    first.kill()
    first.wait(LIMIT)
    assert imi("claim", "one", "--pid", str(second.pid), "--json", cwd=one.path).data["pid"] == second.pid


def test_children_of_the_holder_are_the_holder(shell: Callable[..., Shell]) -> None:
    agent = shell()
    assert agent.imi("claim", "one", "--pid", str(agent.pid)).code == 0
    child = shlex.join(["setsid", "env", "-u", "TMUX_PANE", *imi_argv("verify-lock", "one")])
    assert agent.run(child).code == 0
    assert agent.run("sleep 99 & child=$!").code == 0
    assert agent.run(shlex.join(imi_argv("claim", "one")) + " --pid $child").code == 0


def test_two_terminals_of_one_user_are_two_holders(shell: Callable[..., Shell]) -> None:  # H1
    mine, other = shell(), shell()
    assert mine.imi("claim", "one").code == 0
    for words in (("claim", "one"), ("verify-lock", "one"), ("heartbeat", "one"), ("release", "one", "--dirty-ok")):
        refused = other.imi(*words)
        assert (refused.code, "from another session" in refused.out, "--session ID" in refused.out) == (1, True, True)
    assert other.imi("remove", "one").code == 1
    assert other.imi("rename", "one", "two").code == 1
    for words in (("claim", "one"), ("verify-lock", "one"), ("heartbeat", "one"), ("release", "one", "--dirty-ok")):
        assert mine.imi(*words).code == 0


def test_the_stored_session_moves_to_the_terminal_that_gives_it(shell: Callable[..., Shell]) -> None:
    mine, other = shell(), shell()
    mine.imi("claim", "one")
    session = str(_row()[2])
    assert session.startswith(f"process:{mine.pid}/")
    assert other.imi("claim", "one", "--session", session).code == 0
    assert other.imi("verify-lock", "one").code == 0
    assert mine.imi("verify-lock", "one").code == 1


def test_a_terminal_that_is_gone_holds_nothing_against_its_user(shell: Callable[..., Shell]) -> None:
    mine, other = shell(), shell()
    mine.imi("claim", "one")
    mine.close()
    assert other.imi("claim", "one").code == 0
    assert other.imi("verify-lock", "one").code == 0
    assert shell().imi("verify-lock", "one").code == 1, "the renewal is the other terminal's"


@pytest.mark.parametrize(
    "mine, other",
    [
        (
            {"TMUX": "/tmp/tmux-1/default,77,0", "TMUX_PANE": "%1"},
            {"TMUX": "/tmp/tmux-1/default,77,0", "TMUX_PANE": "%2"},
        ),
        ({"ZELLIJ_SESSION_NAME": "a", "ZELLIJ_PANE_ID": "1"}, {"ZELLIJ_SESSION_NAME": "a", "ZELLIJ_PANE_ID": "2"}),
        ({"CLAUDE_CODE_SESSION_ID": "a"}, {"CLAUDE_CODE_SESSION_ID": "b"}),
        ({"IMI_SESSION_ID": "a"}, {"IMI_SESSION_ID": "b"}),
    ],
)
def test_panes_and_agent_sessions_are_holders(one: Repo, mine: dict[str, str], other: dict[str, str]) -> None:
    assert imi("claim", "one", cwd=one.path, env=mine).code == 0
    assert imi("claim", "one", cwd=one.path, env=other).code == 1
    assert imi("verify-lock", "one", cwd=one.path, env=other).code == 1
    assert imi("verify-lock", "one", cwd=one.path, env=mine).code == 0


def test_force_by_another_terminal_of_the_same_name_raises_the_epoch(shell: Callable[..., Shell]) -> None:
    mine, other = shell(), shell()
    mine.imi("claim", "one")
    assert other.imi("claim", "one", "--force", "--reason", "mine").code == 0
    assert _row()[0] == 2
    told = mine.imi("heartbeat", "one")
    assert (told.code, "because: mine" in told.out) == (1, True)
    assert mine.imi("release", "one", "--dirty-ok").code == 1
    assert mine.imi("release", "one", "--force").code == 2, "the holder is told a reason"
    assert mine.imi("release", "one", "--force", "--reason", "back").code == 0


def test_the_script_of_the_readme_works_as_it_stands(shell: Callable[..., Shell]) -> None:
    text = (ROOT / "README.md").read_text()
    script = text[text.index("export IMI_AGENT_ID=claude-1") :].split("```")[0].replace("feat-api", "one")
    imi_function = f'imi() {{ {shlex.join(imi_argv())} "$@"; }}\n'
    (Path.cwd() / "script.sh").write_text(f"set -e\n{imi_function}{script}")
    done = shell().run(f"sh {Path.cwd() / 'script.sh'}")
    assert done.code == 0, done.out
    assert "one is unclaimed now: claude-1 released it" in done.out


def test_senseless_sessions_are_usage_errors(one: Repo) -> None:
    for value in ("", " ", "a\nb", "x" * 201):
        assert imi("claim", "one", "--session", value, cwd=one.path).code == 2


def test_a_dead_holders_namesake_in_another_terminal_gets_a_new_epoch(shell: Callable[..., Shell]) -> None:
    mine, other = shell(), shell()
    mine.run("sleep 99 & child=$!")
    mine.run(shlex.join(imi_argv("claim", "one")) + " --pid $child")
    mine.run("kill $child; wait $child")
    done = other.imi("claim", "one")
    assert (done.code, "had it and is dead" in done.out) == (0, True)
    assert _row()[0] == 2


def test_a_terminal_whose_shell_is_gone_is_no_mark_of_a_session() -> None:
    """Its number may belong to another process by now."""
    script = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        "sys.stdin.read()\n"  # until the leader is gone
        "from imi_monitor.store.claim_holder import identify_caller\n"
        "print(identify_caller(None, None).session.get('process'))\n"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert leader.stdin is not None
    assert leader.stdout is not None
    leader.wait(LIMIT)
    leader.stdin.close()
    assert read_rest(leader.stdout) == "None\n"
    leader.stdout.close()


def test_a_claim_of_an_earlier_version_is_its_owners(shell: Callable[..., Shell]) -> None:
    mine, other = shell(), shell()
    mine.imi("claim", "one")
    connection = db.connect(paths.default_database())
    connection.execute("UPDATE claims SET session = NULL")
    connection.close()
    assert other.imi("verify-lock", "one").code == 0
    assert other.imi("claim", "one").code == 0
    assert mine.imi("verify-lock", "one").code == 1


def test_a_reservation_gives_the_session_back(one: Repo) -> None:
    imi("claim", "one", "--session", "s-1", cwd=one.path)
    before = _row()[2]
    connection = db.connect(paths.default_database())
    key = connection.execute("SELECT repo_name, worktree_name FROM claims").fetchone()
    held = claims.current(connection, *key)
    epoch = db.transact(connection, claims.reserve, *key, expect_epoch=held.epoch, by="test")
    assert _row()[2] is None
    db.transact(connection, claims.restore, held, epoch)
    connection.close()
    assert _row()[2] == before
