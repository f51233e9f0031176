"""An agent that is about to edit a file learns which other worktree has changed it: from the engine to the answer of the hook."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.hooks import agent_hooks
from imi_monitor.engine import open_engine
from imi_monitor.model.agent import RUNNING, Agent, SessionFacts, ToolCall, Truth
from imi_monitor.model.snapshot import Key
from imi_monitor.sources import edit_warnings_source
from imi_monitor.sources.edit_warnings_source import EditWarningsSource
from imi_monitor.sources.hints import AgentsRead, ChangedFilesRead, RosterRead
from imi_monitor.sources.source import RosterEntry
from tests.helpers import Repo
from tests.limits import LIMIT

DECOY = 'x"file_path":"/etc/passwd"'  # in a file's content, and so escaped


@pytest.fixture
def script() -> Path:
    agent_hooks.install_scripts()
    return Path(agent_hooks.script_path(agent_hooks.EDITS))


def ask(script: Path, path: str, *, event: str = "PreToolUse", tool: str = "Edit", **more: object) -> Any:
    """The answer of the hook program to an agent's event; None if it says nothing."""
    given = {"session_id": "s-me", "cwd": "/", "hook_event_name": event, "tool_name": tool, **more}
    done = subprocess.run(
        ["/bin/sh", str(script), "claude"],
        input=json.dumps({**given, "tool_input": {"content": DECOY * 100, "file_path": path}}, ensure_ascii=False),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert not done.stderr
    return json.loads(done.stdout) if done.stdout else None


def told(answer: Any) -> str:
    return str(answer["hookSpecificOutput"]["additionalContext"]) if answer else ""


def entry(name: str, path: str, common_dir: str = "/r/.git") -> RosterEntry:
    return RosterEntry(
        Key("h", "app", name), path, "/x", common_dir, "feat", None, None, False, False, None, None, False
    )


def agent(name: str, worktree: str, session: str, **facts: Any) -> Agent:
    tool = facts.pop("tool", None)
    truth = Truth(RUNNING, None, "hook", "exact", tool=tool)
    key = Key("h", "app", worktree)
    return Agent(f"c:{session}", "claude", name, key, f"/r/{worktree}", session, 1, None, truth, SessionFacts(**facts))


def write(*, blocks: bool = False, agents: tuple[Agent, ...] = (), **files: set[str]) -> EditWarningsSource:
    source = EditWarningsSource(blocks=blocks)
    source.handle_hint(RosterRead((entry("feat-a", "/r/feat-a"), entry("feat-b", "/r/feat-b"), entry("app", "/r"))))
    source.handle_hint(
        ChangedFilesRead({Key("h", "app", name.replace("_", "-")): frozenset(f) for name, f in files.items()})
    )
    source.handle_hint(AgentsRead(agents))
    source._write()
    return source


def test_the_agent_of_another_worktree_is_told_and_no_other(script: Path) -> None:
    write(
        feat_a={"src/api.py", "x y.txt", "ü.txt", 'quo"te', "tab\tname"}, agents=(agent("claude-1", "feat-a", "s-1"),)
    )
    said = told(ask(script, "/r/feat-b/src/api.py"))
    assert said == "imi: feat-a (claude-1) has changed src/api.py and not merged it"
    assert told(ask(script, "src/api.py", cwd="/r/feat-b")) == said, "a relative path"
    assert told(ask(script, "/r/src/api.py")) == said, "the worktree that contains the others"
    for name in ("x y.txt", "ü.txt"):
        assert name in told(ask(script, f"/r/feat-b/{name}"))
    for path in (
        "/r/feat-a/src/api.py",
        "/r/feat-b/src/other.py",
        "/elsewhere/src/api.py",
        "/r/feat-b/api.py",
        "/r/feat-b",
    ):
        assert ask(script, path) is None, path
    assert ask(script, '/r/feat-b/quo"te') is None and ask(script, "/r/feat-b/tab\tname") is None


def test_what_another_session_has_in_hand_is_told_in_the_same_worktree_too(script: Path) -> None:
    edits = agent("claude-2", "feat-a", "s-2", tool=ToolCall("Edit", "new.py"))
    wrote = agent("claude-3", "feat-a", "s-3", files=("/r/feat-a/old.py", "/r/feat-a/merged.py"))
    write(feat_a={"old.py"}, agents=(edits, wrote))
    for where in ("feat-a", "feat-b"):
        assert "claude-2 has new.py in hand in feat-a" in told(ask(script, f"/r/{where}/new.py"))
    assert told(ask(script, "/r/feat-a/old.py")) == "imi: claude-3 has old.py in hand in feat-a"
    assert ask(script, "/r/feat-a/old.py", session_id="s-3") is None, "its own"
    assert ask(script, "/r/feat-a/merged.py") is None, "committed and merged since"


def test_old_or_damaged_files_say_nothing(script: Path) -> None:
    source = write(feat_a={"f"})
    place = Path(edit_warnings_source.file_of("/r/.git"))
    text = place.read_text()
    assert ask(script, "/r/feat-b/f")
    for at in (int(time.time()) - 11, int(time.time()) + 60):
        place.write_text(f"imi-edits 1 {at:>12} tell\n" + text.partition("\n")[2])
        assert ask(script, "/r/feat-b/f") is None
    source._changed = False
    source._write()
    assert ask(script, "/r/feat-b/f"), "confirmed again"
    for damaged in ("", "imi-edits 2 1 tell\n", "\0\n" * 10, text[: len(text) // 2].partition("\n")[2]):
        place.write_text(damaged)
        assert ask(script, "/r/feat-b/f") is None
    place.unlink()
    assert ask(script, "/r/feat-b/f") is None
    source._write()
    assert ask(script, "/r/feat-b/f"), "written again"


def test_each_program_gets_the_form_that_it_reads(script: Path) -> None:
    write(feat_a={"f"}, feat_b={"f"})
    said = "imi: feat-a has changed f and not merged it"
    after = {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": said}}
    assert ask(script, "/r/feat-b/f", event="AfterTool", tool="read_file") == after
    assert ask(script, "/r/feat-b/f", event="BeforeTool", tool="replace") is None, "Gemini takes no context there"
    prompt = told(ask(script, "", event="UserPromptSubmit", cwd="/r/feat-b/src"))
    assert prompt == "imi: other worktrees have changed files of this worktree, too, and not merged them: f (feat-a)"
    assert ask(script, "", event="UserPromptSubmit", cwd="/r") is None


def test_an_edit_is_refused_only_where_the_setting_says_so(script: Path) -> None:
    write(feat_a={"f"}, blocks=True)
    denied = ask(script, "/r/feat-b/f")["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny" and "feat-a has changed f" in denied["permissionDecisionReason"]
    assert ask(script, "/r/feat-b/f", event="BeforeTool", tool="write_file")["decision"] == "deny"
    assert "additionalContext" in ask(script, "/r/feat-b/f", tool="Read")["hookSpecificOutput"], (
        "reading is never refused"
    )


def test_an_answer_costs_less_than_ten_milliseconds_of_the_agent(script: Path) -> None:
    """Processor time of the shell and its child, with 60 worktrees and 6,000 changed files."""
    source = EditWarningsSource(blocks=False)
    names = [f"feat-{number}" for number in range(60)]
    source.handle_hint(RosterRead(tuple(entry(name, f"/r/{name}") for name in names)))
    files = {Key("h", "app", name): frozenset(f"src/{name}/{number}.py" for number in range(100)) for name in names}
    source.handle_hint(ChangedFilesRead(files))
    source._write()
    ask(script, "/r/feat-1/src/feat-9/9.py")
    before = os.times()
    for _ in range(10):
        assert ask(script, "/r/feat-1/src/feat-9/9.py")
    now = os.times()
    spent = now.children_user + now.children_system - before.children_user - before.children_system
    assert spent / 10 < 0.02  # 6 ms where nothing else runs; the share of a loaded machine is not the program's


def test_the_engine_keeps_the_file_current(repo: Repo, script: Path, tmp_path: Path) -> None:
    trees = [repo.worktree("feat-a"), repo.worktree("feat-b")]

    async def follow() -> None:
        async with open_engine(str(tmp_path / "r.db"), [str(repo.path / ".git")]):
            trees[0].write("src/api.py", "mine\n")
            path = str(trees[1].path / "src/api.py")
            async with asyncio.timeout(LIMIT):
                while not await asyncio.to_thread(ask, script, path):
                    await asyncio.sleep(0.05)

    asyncio.run(follow())
