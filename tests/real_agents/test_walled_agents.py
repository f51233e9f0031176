"""Real agent programs inside of a wall, against the stub model: they edit, commit, deliver, claim, and are told before an edit.

They run where `make agents` has installed the programs; elsewhere they skip and say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import ROOT, wait_for
from tests.limits import LIMIT
from tests.real_agents import stub_model
from tests.real_agents.programs import PROGRAMS, RealProgram, binary, command
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.runs.walls.test_escapes import find_wall

__all__ = ["world"]
_ALLOWED = {"claude": ("--", "--allowedTools", "Bash,Write,Edit,Read,mcp__imi")}
BOTH = [one for one in PROGRAMS if one.cli in ("claude", "codex")]
both = pytest.mark.parametrize("program", BOTH, ids=[one.cli for one in BOTH])
pytestmark = pytest.mark.soak


@pytest.fixture
def port() -> Iterator[int]:
    stub_model.ASKED.clear()
    with stub_model.serving() as port:
        yield port


def install(world: RunWorld, program: RealProgram, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real program first in PATH, with the stub as its model."""
    if not binary(program).exists():
        pytest.skip(f"`make agents` has not installed {program.cli} in {binary(program).parent}")
    for name, value in program.set_up(Path(os.environ["HOME"]), port, world.tree.path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ENABLE_TOOL_SEARCH", "false")  # Claude shows its model all tools at once
    monkeypatch.setenv("PATH", f"{binary(program).parent}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


def run(world: RunWorld, program: RealProgram, prompt: str, *words: str) -> str:
    """Start it, answer what it asks, and wait until its turn is over; the run's id."""
    begun = world.imi(
        "start", program.cli, "--way", "task", "--prompt", prompt, *words, "--json", *_ALLOWED.get(program.cli, ())
    )
    assert begun.code == 0, begun.out + begun.err
    ident = str(begun.data["id"])
    while (row := world.wait(ident, "asks", "idle", "completed", "failed", "crashed"))["shown_state"] == "asks":
        world.imi("answer", ident, "yes")
        wait_for(lambda: world.run(ident)["shown_state"] != "asks")
    said = (row, world.folder(ident).error_lines(), world.imi("logs", ident).out)
    assert row["shown_state"] in ("idle", "completed"), said
    return ident


@both
@pytest.mark.parametrize("level", ["write", "strict"])
def test_a_real_agent_commits_behind_a_wall(
    world: RunWorld, port: int, program: RealProgram, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_wall()
    install(world, program, port, monkeypatch)
    ident = run(world, program, "[[commit]] please", "--sandbox", level, "--in", "feat-x")
    assert world.tree.git("log", "-1", "--format=%s") == "work of an agent", world.imi("logs", ident).out
    session = str(world.run(ident)["session"])
    kept = [path for path in Path(os.environ["HOME"]).rglob(f"*{session}*.jsonl") if "/runs/" not in str(path)]
    assert kept, "its session is in its real folder"
    world.imi("stop", ident)
    wait_for(lambda: world.run(ident)["ended_at"] is not None)
    again = world.imi("resume", ident, "--prompt", "[[hi]] again", "--json")
    assert again.code == 0, again.err
    assert world.wait(again.data["id"], "idle", "completed", "failed", "crashed")["shown_state"] in (
        "idle",
        "completed",
    )
    assert "[[commit]] please" in stub_model.ASKED[-1].decode(), "the resumed session remembers"
    world.imi("stop", again.data["id"])


@both
def test_a_real_agent_delivers_from_a_contained_workspace(
    world: RunWorld, port: int, program: RealProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_wall()
    install(world, program, port, monkeypatch)
    (data := tmp_path / "denker" / "memory").mkdir(parents=True)
    (out := tmp_path / "out").mkdir()
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(data))
    monkeypatch.setenv("OUT", str(out))
    ident = run(world, program, "[[deliver]] please", "--contained", "default", "--deliver", f"report.md={out}/")
    assert (data.parent / "workspace/default/second.md").read_text() == "x", world.imi("logs", ident).out
    wait_for(lambda: "second.md" in world.imi("file", "history").out)
    world.imi("stop", ident)
    wait_for(lambda: (out / "report.md").exists())
    wait_for(lambda: not (data.parent / "workspace/default").exists())
    assert (out / "report.md").read_text() == "# Report\n"


@both
@pytest.mark.parametrize("level", ["off", "write"])
def test_a_real_agent_claims_by_its_tool(
    world: RunWorld, port: int, program: RealProgram, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(world, program, port, monkeypatch)
    if level != "off":
        find_wall()
    ident = run(world, program, "[[claim]] please", "--sandbox", level, "--in", "feat-x")
    asked = stub_model.ASKED[-1].decode()
    assert "is yours" in asked or "claimed" in asked, asked[-3000:]
    world.imi("stop", ident)


def test_claude_is_told_before_it_writes_a_file_that_another_worktree_has_changed(
    world: RunWorld, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = BOTH[0]
    install(world, claude, port, monkeypatch)
    (world.repo.worktree("feat-other").path / "shared.md").write_text("theirs\n")
    assert world.imi("hooks", "install", "claude").code == 0
    with watching(world):
        folder = Path(os.environ["HOME"], ".local/state/imi/edits")
        wait_for(lambda: any("shared.md" in one.read_text() for one in folder.glob("*.tsv")))
        run(world, claude, f"[[write]] file={world.tree.path}/shared.md", "--in", "feat-x")
    told = [one for one in stub_model.ASKED if b"imi: feat-other" in one]
    assert told, "the model got the line with the result of its tool"
    assert (world.tree.path / "shared.md").exists(), "it is told, not kept from it"


def test_gemini_is_told_when_it_reads_a_file_that_another_worktree_has_changed(
    world: RunWorld, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no context before an edit: it is told with the file that it reads before."""
    gemini = next(one for one in PROGRAMS if one.cli == "gemini")
    install(world, gemini, port, monkeypatch)
    settings = Path(os.environ["HOME"], ".gemini", "settings.json")
    known = json.loads(settings.read_text())
    settings.write_text(json.dumps({**known, "security": {**known["security"], "folderTrust": {"enabled": False}}}))
    (world.tree.path / "shared.md").write_text("mine\n")
    (world.repo.worktree("feat-other").path / "shared.md").write_text("theirs\n")
    assert world.imi("hooks", "install", "gemini").code == 0
    with watching(world):
        folder = Path(os.environ["HOME"], ".local/state/imi/edits")
        wait_for(lambda: any("shared.md" in one.read_text() for one in folder.glob("*.tsv")))
        prompt = f"[[read]] file={world.tree.path}/shared.md"
        argv = [*command(gemini), "-p", prompt, "--yolo"]
        done = subprocess.run(argv, cwd=world.tree.path, capture_output=True, text=True, timeout=LIMIT, check=False)
    told = [one for one in stub_model.ASKED if b"imi: feat-other" in one]
    assert told, done.stdout + done.stderr


@contextmanager
def watching(world: RunWorld) -> Iterator[None]:
    """`imi watch`, which keeps the warnings current."""
    argv = [sys.executable, "-m", "imi_monitor", "watch"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(argv, cwd=world.tree.path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(LIMIT)
