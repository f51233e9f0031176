"""Real programs that `imi start` starts: `python -m tests.real_agents.started [PROGRAM…] [task|tmux|zellij…]`.

Each is started, answered, sent a follow-up, interrupted, killed at four moments and resumed, lives through a changed boot id, and
is stopped. It needs the programs that `make agents` installs, tmux, and for zellij its program in IMI_TEST_ZELLIJ.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.runs import launch_folder
from tests.mux.multiplexer_kit import tmux_server
from tests.mux.zellij_kit import touch, zellij_session
from tests.real_agents.programs import CACHE, PROGRAMS, RealProgram, binary
from tests.real_agents.stub_model import serving

WAYS = ("task", "tmux", "zellij")
STARTED = ("claude", "codex", "gemini", "opencode")
_MOMENTS = {"idle": "[[hi]]", "stream": "[[slow]]", "tool": "[[run]]", "ask": "[[ask]]"}
_STATES = {"idle": ("idle", "failed"), "stream": ("works",), "tool": ("works",), "ask": ("asks",)}
_SECONDS = 180.0
_OURS = ("TMUX", "ZELLIJ", "CLAUDE", "CODEX", "GEMINI", "OPENCODE", "XDG_", "ANTHROPIC", "OPENAI", "IMI_")
_OVER = ("completed", "failed", "crashed", "cancelled")


class StartedProgram:
    """One program in one way, with a repository and a home of its own."""

    def __init__(self, tree: Path, cli: str, way: str) -> None:
        self.tree, self.cli, self.way = tree, cli, way
        self.done: list[str] = []
        self.notes: list[str] = []  # what the table says beside a step

    def imi(self, *words: str, may_fail: bool = False) -> Any:
        argv = [sys.executable, "-m", "imi_monitor", *words, "--json"]
        ran = subprocess.run(argv, cwd=self.tree, capture_output=True, text=True, timeout=120, check=False)
        if ran.returncode and not may_fail:
            raise RuntimeError(f"imi {' '.join(words[:3])}: {ran.stdout[-300:]}{ran.stderr[-300:]}")
        return json.loads(ran.stdout)["data"] if ran.returncode == 0 else None

    def row(self, run: str) -> dict[str, Any]:
        return next(one for one in self.imi("runs", "-n", "0")["runs"] if one["id"] == run)

    def wait(self, run: str, *states: str) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while (found := self.row(run))["shown_state"] not in states:
            if time.monotonic() > end:
                raise TimeoutError(f"{found['shown_state']} ({found['detail']}), not {' or '.join(states)}")
            if found["asks"] and "asks" not in states and "yes" in self.allowed:
                self.imi("answer", run, "yes", may_fail=True)
            time.sleep(0.3)
        return dict(found)

    def with_session(self, run: str) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while (found := self.row(run))["session"] is None and time.monotonic() < end:
            time.sleep(0.5)
        return found

    allowed: tuple[str, ...] = ()

    def start(self, prompt: str) -> str:
        way = "task" if self.way == "task" else "window"
        return str(self.imi("start", self.cli, "--prompt", prompt, "--way", way)["id"])

    def step(self, name: str, act: Callable[[], object]) -> None:
        began = time.monotonic()
        try:
            act()
        except (RuntimeError, TimeoutError, AssertionError, OSError, subprocess.SubprocessError) as error:
            self.done.append(f"{name}: NOT ({str(error).strip()[:160] or type(error).__name__})")
        else:
            notes, self.notes = self.notes, []
            self.done.append(f"{name} {time.monotonic() - began:.1f} s{''.join(f' ({one})' for one in notes)}")
        print(f"  {self.cli} {self.way} {self.done[-1]}", flush=True)

    def play(self) -> None:
        run = ""

        def ask_and_answer() -> None:
            nonlocal run
            run = self.start("[[ask]] one")
            self.wait(run, "asks")
            self.imi("answer", run, "yes")
            self.wait(run, "idle")
            assert (self.tree / "asked.txt").exists()

        def follow_and_interrupt() -> None:
            self.imi("say", run, "[[slow]] two")
            self.wait(run, "works")
            time.sleep(2)
            self.imi("interrupt", run)
            self.wait(run, "idle", "failed", "cancelled")

        def stop() -> None:
            self.imi("stop", run)
            self.wait(run, *_OVER)
            assert not family(run), family(run)

        self.step("ask, answered", ask_and_answer)
        self.step("follow-up, interrupt", follow_and_interrupt)
        self.step("stop", stop)
        for moment in _MOMENTS:
            self.step(f"kill -9 at {moment}, resume", lambda moment=moment: self.kill(moment))  # type: ignore[misc]
        self.step("reboot, resume", lambda: self.kill("stream", reboot=True))

    def kill(self, moment: str, *, reboot: bool = False) -> None:
        (self.tree / "asked.txt").unlink(missing_ok=True)
        run = self.start(f"{_MOMENTS[moment]} {moment}")
        self.allowed = ("yes",) if moment == "tool" else ()
        self.wait(run, *_STATES[moment])
        before = self.with_session(run)
        time.sleep(3)
        folder = Path(os.environ["HOME"], ".local", "state", "imi", "runs", run)
        born = json.loads((folder / "born.json").read_text())
        if reboot:
            for pid in (born["keeper"], born["pid"], *family(run)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            (folder / "born.json").write_text(json.dumps({**born, "boot": f"x/{born['boot'].partition('/')[2]}"}))
        else:
            os.kill(born["pid"], signal.SIGKILL)
        self.wait(run, *(("crashed",) if moment != "idle" else _OVER))
        left = self.row(run)["left_behind"]
        self.imi("stop", run, may_fail=True)
        assert not family(run), f"{left} {family(run)}"
        again = str(self.imi("resume", run, "--prompt", "[[hi]] again")["id"])
        after = self.wait(again, "idle")
        assert after["resumed_from"] == run
        if after["session"] != before["session"]:  # Claude writes its transcript late, and Gemini refuses some sessions
            started = launch_folder.folder_of(again)
            assert "Its task:" in (started.packet() or started.prompt()), "a new session without the packet"
            self.notes.append(f"a new session after {moment}")
        self.imi("stop", again)
        assert not family(again)


def family(run: str) -> dict[int, str]:
    return host.processes_by_variable("IMI_RUN_ID").get(run, {})


@contextmanager
def surroundings(way: str, folder: Path) -> Iterator[None]:
    """A terminal multiplexer of its own around this process."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        if way == "tmux":
            run = stack.enter_context(tmux_server(folder, patch))
            run("set-option", "-g", "default-size", "140x50")
        elif way == "zellij":
            touch(stack.enter_context(zellij_session(folder, patch)))
        yield


def trust(home: Path, tree: Path) -> None:
    """What the programs store once a user has accepted the folder."""
    known = home / ".claude.json"
    settings = json.loads(known.read_text()) if known.exists() else {}
    known.write_text(json.dumps({**settings, "projects": {str(tree): {"hasTrustDialogAccepted": True}}}))
    with suppress(FileNotFoundError), open(home / ".codex" / "config.toml", "a") as file:
        file.write(f'[projects."{tree}"]\ntrust_level = "trusted"\n')
    if (home / ".gemini").exists():
        (home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(tree): "TRUST_FOLDER"}))


def main(words: list[str], kind: type[StartedProgram] = StartedProgram, clis: Sequence[str] = STARTED) -> int:
    ways = [one for one in WAYS if one in words] or list(WAYS)
    chosen = [one for one in PROGRAMS if one.cli in clis and (one.cli in words or not set(words) & set(clis))]
    failed = False
    root = Path(__file__).parents[2]
    for name in [name for name in os.environ if name.startswith(_OURS) and name != "IMI_TEST_ZELLIJ"]:
        del os.environ[name]
    os.environ |= {"PATH": f"{CACHE / 'node_modules' / '.bin'}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    for one in chosen:
        for way in ways:
            with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as folder, serving() as port:
                played = _play(kind, one, way, Path(folder), port)
            failed = failed or any("NOT" in line for line in played)
            print(f"| {one.package} | {way} | {'; '.join(played)} |", flush=True)
    return int(failed)


def _play(kind: type[StartedProgram], one: RealProgram, way: str, folder: Path, port: int) -> list[str]:
    home, tree = folder / "home", folder / "app"
    for each in (home, tree):
        each.mkdir()
    os.environ["HOME"] = str(home)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tree, check=True)
    given = dict(one.set_up(home, port, tree))
    trust(home, tree)
    os.environ.update(given)
    assert binary(one).exists(), f"install it with `make agents ARGS={one.cli}`"
    played = kind(tree, one.cli, way)
    try:
        with surroundings(way, folder):
            played.play()
    finally:
        for pids in host.processes_by_variable("IMI_RUN_DIR").values():
            for pid in pids:
                with suppress(OSError):
                    if f"HOME={home}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        os.kill(pid, signal.SIGKILL)
        for name in given:
            os.environ.pop(name, None)
    return played.done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
