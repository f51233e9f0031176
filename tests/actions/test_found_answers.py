"""Answers to agents that imi did not start: the real hook programs, with the events that the real programs give them, and a
daemon of Codex."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import host
from imi_monitor.actions.context import Context
from imi_monitor.actions.hooks import agent_hooks
from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.runs import found_questions
from imi_monitor.sources.agents.agent_reader import ReadContext
from imi_monitor.sources.agents.codex import thread_questions
from imi_monitor.sources.agents.hooks.reader import HookReader
from imi_monitor.store import db
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from tests.helpers import Repo, imi, wait_for
from tests.limits import LIMIT, read_line
from tests.sources.agents.fakes.codex import Server
from tests.sources.agents.hooks_kit import bash, claude
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until
from tests.ui.test_dialogs import opened

SESSION = "370e4d8d-2195-4478-9c9f-7d38fe8010aa"
INTERACTIVE = {"CLAUDE_CODE_ENTRYPOINT": "cli"}


class FoundClaude:
    """Fires the installed hooks as a Claude in this folder does."""

    def __init__(self, tree: Path, session: str = SESSION) -> None:
        self.tree, self.session = tree, session
        self.waiting: list[subprocess.Popen[bytes]] = []

    def fire(self, payload: dict[str, Any], *more: str) -> None:
        done = subprocess.run(
            ["/bin/sh", agent_hooks.script_path(), "claude", *more],
            input=self._event(payload),
            env=self._env(),
            check=True,
            timeout=LIMIT,
            capture_output=True,
        )
        assert not done.stdout + done.stderr

    def ask(self, command: str, **env: str) -> subprocess.Popen[bytes]:
        """The hooks of one question: one reports it, one waits for the answer."""
        payload = bash("PermissionRequest", command, None)
        self.fire(bash("PreToolUse", command, f"t-{command}"))
        waits = subprocess.Popen(
            ["/bin/sh", agent_hooks.script_path(agent_hooks.ANSWERS), "claude"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**self._env(), **INTERACTIVE, **env},
        )
        self.waiting.append(waits)
        assert waits.stdin is not None
        with suppress(BrokenPipeError):  # it leaves at once
            waits.stdin.write(self._event(payload))
            waits.stdin.close()
        waits.stdin = None
        self.fire(payload)
        return waits

    def allowed(self, command: str) -> None:
        """The command has run, because the user allowed it in Claude's own dialog."""
        self.fire(bash("PostToolUse", command, f"t-{command}"))

    def _event(self, payload: dict[str, Any]) -> bytes:
        return json.dumps({**payload, "session_id": self.session, "cwd": str(self.tree)}).encode()

    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "CLAUDE_PID": str(os.getpid())}


@pytest.fixture
def found(repo: Repo) -> Iterator[FoundClaude]:
    agent_hooks.install_scripts()
    one = FoundClaude(repo.worktree("feat-x").path)
    yield one
    for each in one.waiting:
        with suppress(ProcessLookupError):
            each.kill()
        each.wait(timeout=LIMIT)
        assert each.stdout is not None
        each.stdout.close()


def is_asked(*commands: str) -> None:
    texts = [f"permission for Bash {command}" for command in commands]
    wait_for(lambda: [one.question.text for one in found_questions.list_open()] == texts)


def answer_of(waits: subprocess.Popen[bytes]) -> Any:
    out, _ = waits.communicate(timeout=LIMIT)
    return json.loads(out)["hookSpecificOutput"] if out else None


def left_files() -> list[str]:
    return os.listdir(os.path.join(os.path.dirname(agent_hooks.script_path()), "asks"))


def test_a_question_is_answered_by_the_waiting_hook(found: FoundClaude) -> None:
    first = found.ask("touch x")
    is_asked("touch x")
    ran = imi("answer", "feat-x", "yes", cwd=found.tree)
    assert ran.code == 0 and "asks: permission for Bash touch x → yes" in ran.out, ran.err
    said = answer_of(first)
    assert said["hookEventName"] == "PermissionRequest" and said["decision"]["behavior"] == "allow"
    assert said["decision"]["updatedInput"]["command"] == "touch x"
    found.allowed("touch x")
    second = found.ask("rm y")
    is_asked("rm y")
    assert imi("answer", SESSION[:8], "use", "git", "rm", cwd=found.tree).code == 0
    assert answer_of(second)["decision"] == {"behavior": "deny", "message": "use git rm"}
    late = imi("answer", SESSION[:8], "yes", cwd=found.tree)
    assert late.code == 1 and "no run" in late.err
    assert left_files() == []


def test_an_answer_never_reaches_another_question(found: FoundClaude) -> None:
    first = found.ask("touch x")
    is_asked("touch x")
    (asked,) = found_questions.list_open()
    found.allowed("touch x")  # in Claude's own dialog; its hook is not told
    late = imi("answer", "feat-x", "yes", "--ask", asked.id, cwd=found.tree)
    assert late.code == 1 and "too late" in late.err
    found.ask("rm -rf y")
    is_asked("rm -rf y")
    late = imi("answer", "feat-x", "yes", "--ask", asked.id, cwd=found.tree)
    assert late.code == 1 and "too late" in late.err
    assert first.poll() is None and found.waiting[1].poll() is None
    found.fire(claude("Stop", background_tasks=[]), "rest")
    assert [answer_of(one) for one in found.waiting] == [None, None]
    assert left_files() == []


def test_a_monitor_names_the_question_and_lets_the_hook_of_a_closed_one_leave(found: FoundClaude) -> None:
    home = os.environ["HOME"]
    reader = HookReader()

    def ask() -> str | None:
        (one,) = reader.read(ReadContext(time.time(), home, os.environ, (str(found.tree),)), None)
        return one.facts.ask

    first = found.ask("touch x")
    is_asked("touch x")
    (asked,) = found_questions.list_open()
    wait_for(lambda: ask() == asked.id)
    assert str(Path(agent_hooks.script_path()).parent / "asks") in reader.watch_folders(
        ReadContext(time.time(), home, os.environ, ())
    )
    found.allowed("touch x")
    assert ask() is None and answer_of(first) is None
    killed = found.ask("touch y")
    wait_for(lambda: ask() is not None)
    killed.kill()
    killed.wait(timeout=LIMIT)
    assert ask() is None and left_files() == []


@pytest.mark.parametrize("env", [{"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, {"IMI_RUN_ID": "x"}])
def test_a_claude_without_a_dialog_and_one_of_imi_wait_for_no_answer(found: FoundClaude, env: dict[str, str]) -> None:
    assert answer_of(found.ask("touch x", **env)) is None
    assert left_files() == []


def test_the_hooks_of_a_claude_that_is_gone_leave(found: FoundClaude) -> None:
    gone = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, text=True, check=True, timeout=LIMIT)
    old = found.ask("touch x", CLAUDE_PID=gone.stdout.strip())
    is_asked("touch x")
    found.ask("touch y")
    assert answer_of(old) is None
    is_asked("touch y")


@pytest.fixture
def opencode(repo: Repo, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A Node that loads the installed plugin as opencode does: input lines are events, output lines are posted answers."""
    if shutil.which("node") is None:
        pytest.skip("no node")
    (Path(os.environ["HOME"]) / ".config" / "opencode").mkdir(parents=True)
    assert imi("hooks", "install", "opencode").code == 0
    shutil.copy(Path(os.environ["HOME"], ".config/opencode/plugin/imi-hooks.js"), tmp_path / "plugin.mjs")
    tree = repo.worktree("feat-x").path
    (tmp_path / "drive.mjs").write_text("""
        import { createInterface } from "node:readline"
        import { ImiHooks } from "./plugin.mjs"
        const client = { _client: { post: async (given) => console.log(JSON.stringify(given)) } }
        const it = await ImiHooks({ directory: process.cwd(), worktree: process.cwd(), client })
        for await (const line of createInterface({ input: process.stdin })) await it.event({ event: JSON.parse(line) })
        process.exit(0)
    """)
    made = subprocess.Popen(
        ["node", str(tmp_path / "drive.mjs")], cwd=tree, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield made
    made.kill()
    made.wait(LIMIT)
    for pipe in (made.stdin, made.stdout):
        assert pipe is not None
        pipe.close()


def tell(opencode: subprocess.Popen[str], kind: str, **about: Any) -> None:
    assert opencode.stdin is not None
    opencode.stdin.write(json.dumps({"type": kind, "properties": {"sessionID": "ses_1", **about}}) + "\n")
    opencode.stdin.flush()


def ask_permission(opencode: subprocess.Popen[str], ident: str, command: str) -> None:
    tell(opencode, "permission.asked", id=ident, permission="bash", metadata={"command": command, "other": [1]})


def test_a_found_opencode_is_answered_through_its_plugin(repo: Repo, opencode: subprocess.Popen[str]) -> None:
    tree = repo.path.parent / "feat-x"
    ask_permission(opencode, "per_1", "touch x")
    wait_for(lambda: [one.question.text for one in found_questions.list_open()] == ["permission for bash touch x"])
    ran = imi("answer", "feat-x", "yes", cwd=tree)
    assert ran.code == 0, ran.err
    assert opencode.stdout is not None
    posted = json.loads(read_line(opencode.stdout))
    assert (posted["url"], posted["body"]) == ("/permission/per_1/reply", {"reply": "once"})
    tell(opencode, "permission.replied", requestID="per_1", reply="once")
    options = [{"label": "SQLite"}, {"label": "PostgreSQL"}]
    tell(opencode, "question.asked", id="que_1", questions=[{"question": "Which?", "options": options}])
    wait_for(lambda: [one.question.text for one in found_questions.list_open()] == ["question: Which?"])
    assert imi("answer", "ses_1", "2", cwd=tree).code == 0
    posted = json.loads(read_line(opencode.stdout))
    assert (posted["url"], posted["body"]) == ("/question/que_1/reply", {"answers": [["PostgreSQL"]]})


def test_a_question_that_opencode_closes_itself_is_closed(repo: Repo, opencode: subprocess.Popen[str]) -> None:
    ask_permission(opencode, "per_1", "touch x")
    wait_for(found_questions.list_open)
    (asked,) = found_questions.list_open()
    tell(opencode, "permission.replied", requestID="per_1", reply="once")
    wait_for(lambda: left_files() == [])
    ask_permission(opencode, "per_2", "rm -rf y")
    wait_for(found_questions.list_open)
    late = imi("answer", "ses_1", "yes", "--ask", asked.id, cwd=repo.path)
    assert late.code == 1 and "too late" in late.err
    tell(opencode, "session.status", status={"type": "busy"})
    tell(opencode, "session.status", status={"type": "idle"})  # interrupted: it does not say so of the question
    wait_for(lambda: left_files() == [])
    ask_permission(opencode, "per_3", "touch z")
    wait_for(found_questions.list_open)
    assert opencode.stdin is not None
    opencode.stdin.close()
    opencode.wait(LIMIT)
    wait_for(lambda: left_files() == [])


def test_a_monitor_names_the_question_of_an_opencode(repo: Repo, opencode: subprocess.Popen[str]) -> None:
    reader, tree = HookReader(), str(repo.path.parent / "feat-x")

    def ask() -> str | None:
        context = ReadContext(time.time(), os.environ["HOME"], os.environ, (tree,))
        return next((one.facts.ask for one in reader.read(context, None)), None)

    ask_permission(opencode, "per_1", "touch x")
    wait_for(lambda: ask() is not None)
    assert ask() == found_questions.list_open()[0].id
    tell(opencode, "permission.replied", requestID="per_1", reply="reject")
    wait_for(lambda: ask() is None)


THREAD = "01a1f71e-090a-7ac1-8d1e-516d09b10396"
OTHER = "01a1f71e-41f3-7321-bdd1-d634be758147"


@pytest.fixture
def daemon(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    waits = {"type": "active", "activeFlags": ["waitingOnApproval"]}
    tree = str(repo.worktree("feat-x").path)
    threads = {OTHER: {"id": OTHER, "cwd": tree, "status": {"type": "idle"}}}
    threads[THREAD] = {"id": THREAD, "cwd": tree, "status": waits}
    server = Server(thread_questions.socket_path(str(tmp_path / "codex")), threads)
    yield server
    server.close()


def test_a_found_codex_is_answered_by_its_daemon(repo: Repo, daemon: Server) -> None:
    tree = repo.path.parent / "feat-x"
    daemon.ask(THREAD, 0, "call_1", "touch x")
    ran = imi("answer", THREAD[:8], "yes", cwd=tree)
    assert ran.code == 0 and "asks: permission for Bash touch x → yes" in ran.out, ran.err
    assert daemon.answers == [{"id": 0, "result": {"decision": "accept"}}]
    daemon.ask(THREAD, 1, "call_2", "rm y")
    daemon.ask(THREAD, 2, "call_3", "rm z")
    first, second = found_questions.list_open()
    assert [one.question.text for one in (first, second)] == ["permission for Bash rm y", "permission for Bash rm z"]
    several = imi("answer", "feat-x", "no", cwd=tree)
    assert several.code == 1 and f"--ask {second.id} (permission for Bash rm z)" in several.err
    assert imi("answer", "feat-x", "no", "--ask", second.id, cwd=tree).code == 0
    assert daemon.answers[1:] == [{"id": 2, "result": {"decision": "decline"}}]
    assert OTHER not in {one.session for one in found_questions.list_open()}


def test_an_answer_never_reaches_another_question_of_a_codex(repo: Repo, daemon: Server) -> None:
    daemon.ask(THREAD, 0, "call_1", "touch x")
    (asked,) = found_questions.list_open()
    daemon.questions.clear()  # in Codex's own dialog
    daemon.ask(THREAD, 0, "call_2", "rm -rf y")  # after the daemon was started again
    late = imi("answer", THREAD, "yes", "--ask", asked.id, cwd=repo.path)
    assert late.code == 1 and "too late" in late.err and daemon.answers == []
    with pytest.raises(Refused, match="too late"):
        found_questions.send(asked, {"id": 0, "result": {"decision": "accept"}})
    assert daemon.answers == []


@pytest.mark.parametrize("behave", ["no websocket", "no objects", "other names"])
def test_a_daemon_that_is_not_understood_has_no_questions(daemon: Server, behave: str) -> None:
    daemon.ask(THREAD, 0, "call_1", "touch x")
    daemon.behave = behave
    assert found_questions.list_open() == []


def test_a_found_claude_is_answered_from_the_dashboard(repo: Repo, found: FoundClaude) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        waits = found.ask("touch x")
        await wait_until(pilot, lambda: "asks: " in screen_text(app))
        await opened(app, pilot, "feat-x", "W")
        assert "asks: permission for Bash touch x" in screen_text(app)
        await pilot.press("y")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        assert answer_of(waits)["decision"]["behavior"] == "allow"
        found.allowed("touch x")
        second = found.ask("touch y")
        await pilot.press("A")
        await wait_until(pilot, lambda: "touch y" in screen_text(app))
        await pilot.press("space")
        await wait_until(pilot, lambda: "W answers  y yes  n no" in screen_text(app))
        await pilot.press("W")
        await wait_until(pilot, lambda: "asks: permission for Bash touch y" in screen_text(app))
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press("n")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        assert answer_of(second)["decision"]["behavior"] == "deny"

    run_dashboard(repo, play)


@pytest.mark.parametrize(
    ("cli", "why"), [("claude", "imi hooks install claude"), ("codex", "it has no daemon"), ("gemini", "takes no")]
)
def test_an_agent_without_a_way_is_named_with_the_reason(repo: Repo, cli: str, why: str) -> None:
    me, now = host.identify_process(os.getpid()), times.stamp()
    put = (
        "INSERT INTO sessions (id, host, cli, agent_id, status, status_at, seen_at, created_at, updated_at, boot, pid,"
        f" pid_started) VALUES ({', '.join('?' * 12)})"
    )
    of = (f"{cli}:{SESSION}", host.hostname(), cli, f"{cli}-7", "waiting_for_input")
    with Context(str(repo.path)) as context:
        db.transact(
            context.connection, lambda file: file.execute(put, (*of, now, now, now, now, me.boot, me.pid, me.started))
        )
    for name in (f"{cli}-7", SESSION[:8]):
        refused = imi("answer", name, "yes", cwd=repo.path)
        assert (
            refused.code == 1 and why in refused.err and "enter in the dashboard goes to its own screen" in refused.err
        )
