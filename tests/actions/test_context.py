"""The context of a terminal: captured from a real tmux, kept through its death, brought back with programs behind Enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model import terminal_layout
from imi_monitor.model.terminal_layout import LayoutPane, LayoutTab, TerminalLayout
from imi_monitor.mux import zellij_layout
from tests.helpers import Repo, imi, wait_for
from tests.mux.multiplexer_kit import RunTmux, tmux_server
from tests.redis_server import RedisServer


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        yield run


def arrange(tmux: RunTmux, first: Path, second: Path) -> None:
    """A second window with three panes; a program runs in one."""
    tmux("new-window", "-d", "-n", "work\\;", "-c", str(first))
    tmux("split-window", "-d", "-h", "-t", "one:1", "-c", str(second), "sleep 1234")
    tmux("split-window", "-d", "-v", "-t", "one:1.1", "-c", str(first))
    wait_for(lambda: "sleep" in tmux("list-panes", "-a", "-F", "#{pane_current_command}"))
    folders = sorted(map(str, (first, first, second)))  # a new pane needs a moment to be in its own
    wait_for(lambda: sorted(tmux("list-panes", "-t", "one:1", "-F", "#{pane_current_path}").splitlines()) == folders)


def kill(tmux: RunTmux) -> None:
    """Kill the server, and wait until it is gone."""
    pid = int(os.environ["TMUX"].split(",")[1])
    tmux("kill-server")
    wait_for(lambda: host.start_time(pid) is None)


def geometry(tmux: RunTmux, window: str) -> list[str]:
    fields = "#{pane_left} #{pane_top} #{pane_width} #{pane_height} #{pane_current_path}"
    return tmux("list-panes", "-t", window, "-F", fields).splitlines()


def test_a_context_survives_the_death_of_its_terminal(  # S2.26 S2.27
    repo: Repo, tmux: RunTmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repo.worktree("feat-x")
    arrange(tmux, tree.path, repo.path)
    before = geometry(tmux, "one:1")
    imi("intent", "make it work", cwd=tree.path)
    imi("milestone", "it compiles", cwd=tree.path)
    wait_for(lambda: imi("context", "show", "--json", cwd=tree.path).data["context"]["panes"] == 4)
    assert "unchanged: 2 tabs, 4 panes" in imi("context", "save", cwd=tree.path).out
    shown = imi("context", cwd=tree.path).out
    assert "intent: make it work" in shown and "it compiles" in shown and "sleep 1234" in shown
    kill(tmux)
    with tmux_server(tmp_path, monkeypatch) as again:
        offered = imi("context", "show", cwd=tree.path)
        assert "intent: make it work" in offered.out and "this terminal can continue it" in offered.out
        resumed = imi("context", "resume", "--json", cwd=tree.path)
        assert resumed.code == 0 and resumed.data["problems"] == [], resumed
        restored = next(
            line.split()[0]
            for line in again("list-windows", "-F", "#{window_id} #{window_name}").splitlines()
            if line.endswith("work;")
        )
        wait_for(lambda: geometry(again, restored) == before)
        panes = again("list-panes", "-t", restored, "-F", "#{pane_id} #{pane_current_command}").splitlines()
        assert not any("sleep" in one for one in panes), "it is typed and not started"
        wait_for(lambda: any("sleep 1234" in again("capture-pane", "-pJ", "-t", one.split()[0]) for one in panes))
        now = imi("context", "--json", cwd=tree.path).data
        assert now["context"]["intent"] == "make it work" and not now["resumable"], "it goes on here"
        assert imi("context", "resume", cwd=tree.path).code == 1, "once is enough"


def test_a_context_can_be_dismissed(repo: Repo, tmux: RunTmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imi("intent", "later", cwd=repo.path)
    wait_for(
        lambda: imi("context", "show", "--json", cwd=repo.path).data["context"]["panes"]
    )  # saved in the background
    kill(tmux)
    with tmux_server(tmp_path, monkeypatch):
        assert imi("context", "resume", "--dismiss", cwd=repo.path).code == 0
        assert "nothing is recorded" in imi("context", cwd=repo.path).out
        (listed,) = imi("context", "list", "--json", cwd=repo.path).data["contexts"]
        assert listed["intent"] == "later" and listed["settled_at"]


def test_secrets_in_command_lines_are_not_kept(repo: Repo, tmux: RunTmux) -> None:
    secret = "ghp_" + "a1B2" * 9
    tmux(
        "new-window",
        "-d",
        "-n",
        "w",
        "-c",
        str(repo.path),
        sys.executable,
        "-c",
        "import time; time.sleep(1234)",
        secret,
    )
    wait_for(lambda: "python" in tmux("list-panes", "-a", "-F", "#{pane_current_command}"))
    assert imi("context", "save", cwd=repo.path).code == 0
    shown = imi("context", cwd=repo.path).out
    assert "sleep(1234)" in shown and secret not in shown
    assert secret.encode() not in Path(os.path.expanduser("~/.config/iMi/iMi.db")).read_bytes()
    Path(os.path.expanduser("~/.config/iMi/config.toml")).write_text("[context]\ncommands = false\n")
    assert imi("context", "save", cwd=repo.path).code == 0
    assert "1234" not in imi("context", cwd=repo.path).out


def test_a_note_does_not_wait_for_the_panes(  # S2.55
    repo: Repo, tmux: RunTmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process records them, also when the multiplexer hangs meanwhile; `bench/team.py` measures the caller."""
    may_go_on, program = tmp_path / "go", tmp_path / "bin" / "tmux"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nwhile [ ! -e "{may_go_on}" ]; do sleep 0.05; done\nexec "{shutil.which("tmux")}" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert imi("milestone", "it compiles", cwd=repo.path).code == 0
    found = imi("context", "show", "--json", cwd=repo.path).data["context"]
    assert found["notes"][0]["text"] == "it compiles" and found["panes"] is None
    may_go_on.touch()
    assert imi("milestone", "it runs", cwd=repo.path).code == 0  # the first process may have given up meanwhile
    wait_for(lambda: imi("context", "show", "--json", cwd=repo.path).data["context"]["panes"] == 1)


def test_the_teams_redis_has_intent_milestones_and_panes(  # S2.19 S2.25 S2.46 S2.47
    repo: Repo, tmux: RunTmux, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMI_REDIS_URL", redis_server.url)
    ident = str(imi("intent", "make it work", "--json", cwd=repo.path).data["context"])
    imi("milestone", "it compiles", "--artifacts", "a.html", cwd=repo.path)
    session, intent = f"session:{ident}", f"intent:{ident}"
    wait_for(lambda: "it compiles" in redis_server.run("HGET", session, "milestones"))
    wait_for(lambda: '"panes"' in redis_server.run("HGET", session, "panes"))
    assert redis_server.run("GET", intent).endswith("make it work")
    assert 7 * 86400 - 60 < int(redis_server.run("TTL", session)[1:]) <= 7 * 86400
    assert 7 * 86400 - 60 < int(redis_server.run("TTL", f"{session}:milestones")[1:]) <= 7 * 86400
    assert 24 * 3600 - 60 < int(redis_server.run("TTL", intent)[1:]) <= 24 * 3600
    everything = redis_server.run("HGETALL", session)
    assert str(repo.path) not in everything and os.path.expanduser("~") not in everything, "no absolute path leaves"
    shared = imi("context", "list", "--shared", cwd=repo.path).out
    assert "make it work" in shared
    redis_server.run("FLUSHALL")
    with subprocess.Popen(**_serve(repo)) as served:  # type: ignore[call-overload]
        wait_for(lambda: redis_server.run("GET", intent).endswith("make it work"))
        imi("intent", "--done", cwd=repo.path)
        wait_for(lambda: redis_server.run("EXISTS", intent) == ":0")
        served.terminate()


def _serve(repo: Repo) -> dict[str, object]:
    from tests.helpers import ROOT, imi_argv

    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return {"args": imi_argv("serve"), "cwd": repo.path, "env": env, "stderr": subprocess.DEVNULL}


def test_a_key_of_another_type_is_not_overwritten(
    repo: Repo, tmux: RunTmux, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident = str(imi("intent", "mine", "--json", cwd=repo.path).data["context"])
    redis_server.run("SET", f"session:{ident}", "theirs")
    monkeypatch.setenv("IMI_REDIS_URL", redis_server.url)
    saved = imi("context", "save", cwd=repo.path)
    assert saved.code == 0 and "is a string of another program: it stays as it is" in saved.err
    assert redis_server.run("GET", f"session:{ident}").endswith("theirs")


def test_what_zellij_driver_and_jelmore_keep_is_read(repo: Repo, redis_server: RedisServer) -> None:
    put = redis_server.run
    put("HSET", "znav:pane:api", "session", "work", "tab", "feat", "last_intent", "fix the login", "stale", "false")
    put("LPUSH", "perth:pane:api:history", '{"id":"1","summary":"login works","entry_type":"milestone","artifacts":[]}')
    put(
        "SET",
        "perth:snapshots:work:evening",
        '{"schema_version":"1.0","name":"evening","session":"work","pane_count":4}',
    )
    put(
        "SET",
        "jelmore:session:7",
        '{"status":"waiting_input","query":"add tests","current_directory":"/home/a"}',
        "EX",
        "1800",
    )
    put("SET", "jelmore:session:evil", '{"query":"\\u001b[2J[red]x", "status": 3}')
    put("SET", "sessions:claude:9", "no json")
    put("LPUSH", "jelmore:session:list", "x")
    done = imi("context", "list", "--shared", "--redis", redis_server.url, "--json", cwd=repo.path)
    says = {one["key"]: (one["of"], one["says"]) for one in done.data["entries"]}
    assert says["znav:pane:api"] == ("zellij-driver pane", "fix the login, session work, tab feat")
    assert says["perth:pane:api:history"] == ("zellij-driver intents", "milestone, login works")
    assert says["perth:snapshots:work:evening"][1] == "evening, 4 panes"
    assert says["jelmore:session:7"] == ("Jelmore session", "waiting_input, add tests, /home/a")
    assert "\x1b" not in says["jelmore:session:evil"][1] and says["sessions:claude:9"][1] == ""
    assert "KEYS" not in put("INFO", "commandstats") and "cmdstat_keys" not in put("INFO", "commandstats")


def test_a_layout_of_zellij_has_the_same_arrangement_and_holds_its_programs(tmp_path: Path) -> None:
    panes = (
        LayoutPane(str(tmp_path), rectangle=(0, 0, 80, 40), focused=True),
        LayoutPane(str(tmp_path), "vim", 'vim "a b.py"', rectangle=(80, 0, 80, 10)),
        LayoutPane(str(tmp_path / "gone"), "curl", "curl -H 'Authorization: [redacted]'", rectangle=(80, 10, 80, 30)),
    )
    text = zellij_layout.kdl(TerminalLayout("zellij", "work", (LayoutTab('fe"at', True, panes),)))
    assert 'tab name="fe\\"at" focus=true {' in text
    assert text.index('split_direction="vertical"') < text.index('split_direction="horizontal"')
    assert 'command="vim" {' in text and 'args "a b.py"' in text and "start_suspended true" in text
    assert "curl" not in text and "gone" not in text, "what is not whole is not typed, and what is gone is not entered"
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"tabs": 3}', '{"tabs": [{"panes": [1, {"rectangle": ["x"]}]}]}', "[" * 5000]
)
def test_any_stored_layout_is_read_or_refused(text: str) -> None:
    found = terminal_layout.decode(text)
    if found is not None:
        assert found.without_places().lines() == found.lines()
