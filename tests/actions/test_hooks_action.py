"""`imi hooks`: installed into the settings of agents and removed again; the installed hook writes events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from imi_monitor.actions.hooks import agent_hooks, settings_file
from imi_monitor.model.errors import Refused
from tests.helpers import Repo, imi, tree_hash

MINE = '{\n  "model": "x", // dear\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}\n}\n'


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in (".claude", ".codex", ".gemini", ".config/opencode"):
        (own_home / name).mkdir(parents=True)
    return own_home


def settings_of(home: Path) -> dict[str, bytes]:
    """Every file of the agents, not our own."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and ".local" not in path.parts
    }


def states(cwd: Path | None = None) -> dict[tuple[str, str], str]:
    return {
        (row["agent"], row["scope"]): row["state"] for row in imi("hooks", "status", "--json", cwd=cwd).data["hooks"]
    }


def test_hooks_of_all_agents_are_installed_and_removed(home: Path) -> None:
    (home / ".claude/settings.json").write_text(MINE)
    (home / ".gemini/settings.json").write_text("{}")
    before = settings_of(home)
    ran = imi("hooks", "install")
    assert ran.code == 0, ran
    assert "Codex runs hooks only after you accept them" in ran.err and "npm" in ran.err
    assert states() == {
        ("claude", "user"): "installed",
        ("codex", "user"): "not trusted",
        ("gemini", "user"): "installed",
        ("opencode", "user"): "installed",
    }
    once = settings_of(home)
    assert "has imi's hooks already" in imi("hooks", "install").out
    assert settings_of(home) == once, "installing twice is installing once"
    assert imi("hooks", "uninstall").code == 0
    assert settings_of(home) == before
    assert set(states().values()) == {"not installed"}
    assert not (home / ".config/opencode/plugin").exists(), "folders we made go, too"
    assert not Path(agent_hooks.script_path()).exists()
    assert "has no imi hooks" in imi("hooks", "uninstall").out


def test_each_agent_gets_its_own_handler_form(home: Path) -> None:
    imi("hooks", "install")
    claude = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    codex = json.loads((home / ".codex/hooks.json").read_text())["hooks"]
    gemini = json.loads((home / ".gemini/settings.json").read_text())["hooks"]
    assert claude["PreToolUse"][0]["matcher"] == "*" and "matcher" not in claude["Stop"][0]
    assert claude["PermissionRequest"][0]["hooks"][0]["timeout"] == 5
    assert not any("async" in handler for groups in claude.values() for group in groups for handler in group["hooks"])
    assert codex["SessionEnd"][0]["hooks"][0]["timeout"] == 3
    assert gemini["Notification"][0]["hooks"][0]["timeout"] == 5000, "milliseconds"
    for noisy in ("BeforeModel", "AfterModel", "MessageDisplay", "WorktreeCreate"):
        assert noisy not in claude and noisy not in gemini and noisy not in codex


@pytest.mark.parametrize(
    ("said", "known", "unknown"),
    [
        ("2.1.326 (Claude Code)", {"PermissionRequest", "StopFailure", "PostCompact"}, set()),
        ("2.0.50 (Claude Code)", {"PermissionRequest", "Stop"}, {"StopFailure", "PostCompact", "SubagentStart"}),
        ("1.0.90 (Claude Code)", {"SessionEnd", "Stop"}, {"PermissionRequest", "StopFailure"}),
        ("soon", {"PermissionRequest", "StopFailure"}, set()),
    ],
)
def test_only_events_that_the_installed_version_knows(
    home: Path, tmp_path: Path, said: str, known: set[str], unknown: set[str]
) -> None:
    fake = tmp_path / "bin" / "claude"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho '{said}'\n")
    fake.chmod(0o755)
    env = {"PATH": f"{fake.parent}:{os.environ['PATH']}"}
    assert imi("hooks", "install", "claude", env=env).code == 0
    events = set(json.loads((home / ".claude/settings.json").read_text())["hooks"])
    assert known <= events and not unknown & events
    assert " installed " in imi("hooks", "status", env=env).out.splitlines()[0]
    imi("hooks", "uninstall", env=env)
    assert not (home / ".claude/settings.json").exists()


def test_a_dry_run_of_hooks_shows_the_diff_and_changes_nothing(home: Path, tmp_path: Path) -> None:
    (home / ".claude/settings.json").write_text(MINE)
    before = tree_hash(tmp_path)
    ran = imi("hooks", "install", "--dry-run")
    assert ran.code == 0 and tree_hash(tmp_path) == before
    assert "+++ " in ran.out and '+            "timeout": 5' in ran.out and "--- /dev/null" in ran.out
    assert not [
        line for line in ran.out.splitlines() if line.startswith("-") and not line.startswith(("---", '-  "hooks"'))
    ]
    imi("hooks", "install", "claude")
    installed = tree_hash(tmp_path)
    ran = imi("hooks", "uninstall", "claude", "--dry-run")
    assert tree_hash(tmp_path) == installed and '\n-  "hooks": ' in ran.out and '\n+  "hooks": ' in ran.out


def test_removing_hooks_keeps_later_edits_of_the_user(home: Path) -> None:
    path = home / ".claude/settings.json"
    path.write_text(MINE)
    imi("hooks", "install", "claude")
    path.write_text(path.read_text().replace('"x", // dear', '"y", // dearer'))
    assert states()["claude", "user"] == "installed"
    imi("hooks", "uninstall", "claude")
    assert path.read_text() == MINE.replace('"x", // dear', '"y", // dearer')


def test_a_linked_settings_file_is_followed_and_keeps_its_mode(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = home / ".claude/settings.json"
    link.symlink_to(real)
    imi("hooks", "install", "claude")
    assert link.is_symlink() and "imi-hook.sh" in real.read_text() and real.stat().st_mode & 0o777 == 0o640
    assert os.listdir(real.parent) == ["settings.json"], "nothing temporary stays"
    imi("hooks", "uninstall", "claude")
    assert link.is_symlink() and real.read_text() == "{}" and real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("text", [b'{"a": ', b"[]", b'{"hooks": []}', b"\xff\xfe{}", b'{"hooks": {"SessionStart": 3}}'])
def test_an_unreadable_settings_file_is_not_changed(home: Path, text: bytes) -> None:
    (home / ".gemini/settings.json").write_bytes(text)
    before = settings_of(home)
    ran = imi("hooks", "install")
    assert ran.code == 1 and len(ran.err.splitlines()) == 1 and ".gemini/settings.json" in ran.err
    assert settings_of(home) == before, "and no other agent is touched either"
    assert imi("hooks", "status").code == 0


def test_unused_agents_get_no_settings_file(own_home: Path) -> None:
    ran = imi("hooks", "install")
    assert ran.code == 1 and "name one of them" in ran.err
    assert not settings_of(own_home).keys() - {".gitconfig"}
    (own_home / ".codex").mkdir()
    imi("hooks", "install")
    assert not (own_home / ".claude").exists() and (own_home / ".codex/hooks.json").exists()
    imi("hooks", "install", "claude")
    assert (own_home / ".claude/settings.json").exists(), "asked for by name"
    imi("hooks", "uninstall", "claude")
    assert not (own_home / ".claude").exists()


def test_the_settings_folder_of_an_environment_variable_is_used(home: Path, tmp_path: Path) -> None:
    env = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "c"),
        "CODEX_HOME": str(tmp_path / "x"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    for name in ("c", "x"):
        (tmp_path / name).mkdir()
    imi("hooks", "install", env=env)
    assert str(tmp_path / "state/imi/hooks/imi-hook.sh") in (tmp_path / "c/settings.json").read_text()
    assert (tmp_path / "x/hooks.json").exists() and not (home / ".claude/settings.json").exists()


def test_project_hooks_go_into_private_settings(home: Path, repo: Repo) -> None:
    inside = repo.path / "src"
    assert imi("hooks", "install", "claude", "--scope", "project", cwd=inside).code == 0
    assert (repo.path / ".claude/settings.local.json").exists() and not (repo.path / ".claude/settings.json").exists()
    assert states(inside)["claude", "project"] == "installed"
    imi("hooks", "install", "claude", "--scope", "project", "--shared", cwd=inside)
    assert (repo.path / ".claude/settings.json").exists()
    imi("hooks", "uninstall", "claude", "--scope", "project", cwd=inside)
    imi("hooks", "uninstall", "claude", "--scope", "project", "--shared", cwd=inside)
    assert not (repo.path / ".claude").exists()
    for words, said in (
        (("codex", "--scope", "project"), "leave out --scope project"),
        (("gemini", "--scope", "project"), "--shared"),
        (("claude", "--shared"), "--scope project"),
        (("claude", "--scope", "world"), "neither user nor project"),
        (("cursor",), "use one of claude"),
    ):
        ran = imi("hooks", "install", *words, cwd=inside)
        assert ran.code in (1, 2) and said in ran.err, ran
    assert "not in a worktree" in imi("hooks", "install", "claude", "--scope", "project", cwd=home).err


def test_partly_installed_and_outdated_hooks_are_reported(home: Path) -> None:
    imi("hooks", "install")
    path = home / ".claude/settings.json"
    whole = path.read_text()
    value = json.loads(whole)
    del value["hooks"]["PermissionRequest"]
    path.write_text(json.dumps(value))
    assert states()["claude", "user"] == "partly installed"
    path.write_text(whole.replace('"timeout": 5', '"timeout": 5').replace("hook.sh' claude", "hook.sh' claude --old"))
    assert states()["claude", "user"] == "of an older version"
    imi("hooks", "install", "claude")
    assert states()["claude", "user"] == "installed" and json.loads(path.read_text()) == json.loads(whole)
    Path(agent_hooks.script_path()).write_text("#!/bin/sh\n# an older one\n")
    assert states()["claude", "user"] == "of an older version"
    imi("hooks", "install", "claude")
    assert Path(agent_hooks.script_path()).read_bytes() == agent_hooks.script_source()
    Path(agent_hooks.script_path()).unlink()
    assert states()["claude", "user"] == "partly installed", "without the program nothing is told"


def test_codex_hooks_are_untrusted_until_the_user_accepts_them(home: Path) -> None:
    imi("hooks", "install", "codex")
    place = home / ".codex/hooks.json"
    events = json.loads(place.read_text())["hooks"]
    accepted = "".join(
        f'[hooks.state."{place}:{event}:{number}:0"]\ntrusted_hash = "sha256:1"\n'
        for event, groups in events.items()
        for number in range(len(groups))
    )
    (home / ".codex/config.toml").write_text(accepted)
    assert states()["codex", "user"] == "installed"
    (home / ".codex/config.toml").write_text(accepted.replace("[hooks", "#", 1).replace("trusted", "#", 1))
    assert states()["codex", "user"] == "not trusted"
    (home / ".codex/config.toml").write_text("broken = ")
    assert states()["codex", "user"] == "not trusted"


def test_the_installed_hook_writes_an_event(home: Path) -> None:
    """As an agent would run it, by whatever shell; and nothing happens when imi is gone."""
    imi("hooks", "install", "claude")
    command = json.loads((home / ".claude/settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    spool = Path(agent_hooks.script_path()).parent / "spool"
    assert spool.stat().st_mode & 0o777 == 0o700
    shells = [shell for shell in ("sh", "bash", "dash", "zsh", "fish") if shutil.which(shell)]
    for number, shell in enumerate(shells, 1):
        done = subprocess.run([shell, "-c", command], input=b'{"a": 1}', capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert len(os.listdir(spool)) == number
    shutil.rmtree(spool.parent)
    for shell in shells:
        done = subprocess.run([shell, "-c", command], input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not spool.parent.exists()
    imi("hooks", "uninstall", "claude")
    assert not (home / ".claude/settings.json").read_text().count("imi"), "also without our notes"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_plugin_of_opencode_writes_an_event(home: Path, tmp_path: Path) -> None:
    imi("hooks", "install", "opencode")
    plugin = home / ".config/opencode/plugin/imi-hooks.js"
    shutil.copy(plugin, tmp_path / "plugin.mjs")
    (tmp_path / "drive.mjs").write_text("""
        import * as all from "./plugin.mjs"
        const [make] = Object.values(all)
        const it = await make({ directory: "/w", worktree: "/w" })
        const event = (type, properties) => it.event({ event: { type, properties } })
        await event("session.created", { sessionID: "s", info: { id: "s", title: "T", parentID: "p" } })
        await event("session.status", { sessionID: "s", status: { type: "busy" } })
        await event("session.status", { sessionID: "s", status: { type: "busy" } })
        await it["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c" }, { args: { command: "x".repeat(9000) } })
        await event("permission.asked", { id: "per", sessionID: "s", permission: "bash", metadata: {}, tool: { callID: "c" } })
        await event("permission.replied", { sessionID: "s", requestID: "per", reply: "once" })
        await it["tool.execute.after"]({ tool: "bash", sessionID: "s", callID: "c", args: {} }, {})
        await event("session.error", { sessionID: "s", error: { name: "MessageAbortedError", data: {} } })
        await event("session.status", { sessionID: "s", status: { type: "idle" } })
        await event("message.part.updated", { sessionID: "s", part: {} })
        await it.event({}); await it.event({ event: { type: "session.error" } }); await it["tool.execute.before"]()
    """)
    done = subprocess.run(["node", str(tmp_path / "drive.mjs")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spool = Path(agent_hooks.script_path()).parent / "spool"
    told = sorted(spool.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    payloads = [json.loads(path.read_bytes().split(b"\n\n", 1)[1].removesuffix(b"\nimi-end\n")) for path in told]
    assert [payload["hook_event_name"] for payload in payloads] == [
        "session.created",
        "busy",
        "tool.before",
        "permission.asked",
        "permission.replied",
        "tool.after",
        "session.error",
        "idle",
    ]
    assert {payload["cwd"] for payload in payloads} == {"/w"} and payloads[0]["parent"] == "p"
    assert len(payloads[2]["tool_input"]["command"]) == 2000


def test_a_foreign_plugin_file_is_not_changed(home: Path) -> None:
    place = home / ".config/opencode/plugins/imi-hooks.js"
    place.parent.mkdir()
    place.write_text("export const mine = 1")
    ran = imi("hooks", "install", "opencode")
    assert ran.code == 1 and "is not imi's" in ran.err and place.read_text() == "export const mine = 1"


def test_a_concurrent_change_of_the_settings_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("theirs, newer")
    with pytest.raises(Refused, match="changed by another program"):
        settings_file.write(str(path), b"ours", expected=b"theirs, older")
    with pytest.raises(Refused, match="changed by another program"):
        settings_file.delete(str(path), b"theirs, older")
    assert path.read_text() == "theirs, newer" and not list(tmp_path.glob("*~"))


def test_hooks_are_removed_without_the_copy_of_the_original(home: Path) -> None:
    path = home / ".claude/settings.json"
    path.write_text(MINE)
    imi("hooks", "install", "claude")
    folder = Path(agent_hooks.script_path()).parent
    (copy,) = folder.glob("*.before")
    assert copy.read_text() == MINE and copy.stat().st_mode & 0o777 == 0o600
    copy.unlink()
    imi("hooks", "uninstall", "claude")
    assert path.read_text() == MINE


def test_hooks_create_no_registry(home: Path) -> None:
    for words in (("status",), ("install",), ("uninstall",)):
        imi("hooks", *words)
    assert not (home / ".config/iMi").exists()
