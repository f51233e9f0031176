"""`imi mcp install|uninstall`: one entry in the settings of each program, and the settings back byte for byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from imi_monitor.actions.mcp import agent_servers, server_entries
from tests.helpers import Repo, imi

FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
}
TEXTS = {
    "claude": '{\n  "numStartups": 3,\n  "mcpServers": {\n    "own": {"command": "x"}\n  },\n  "z": 1\n}',
    "codex": 'model = "o"\n\n[mcp_servers.own]\ncommand = "x" # mine\n',
    "gemini": '{"mcpServers": {}, // none yet\n "theme": "Dark"}\n',
    "opencode": '{\n\t"mcp": {"own": {"type": "local", "command": ["x"]}},\r\n\t"a": []\r\n}\r\n',
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in (".claude", ".codex", ".gemini", ".config/opencode"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _entries(home: Path) -> dict[str, object]:
    read = {name: (home / file).read_text() for name, file in FILES.items()}
    command = agent_servers.server_command()
    assert tomllib.loads(read["codex"])["mcp_servers"]["imi"] == {"command": command[0], "args": command[1:]}
    return {
        name: server_entries.find_json(read[name], "mcp" if name == "opencode" else "mcpServers")
        for name in ("claude", "gemini", "opencode")
    }


@pytest.mark.parametrize("there", [False, True])
def test_the_entry_goes_in_and_every_byte_comes_back(home: Path, there: bool) -> None:
    for name, file in FILES.items() if there else ():
        (home / file).write_bytes(TEXTS[name].encode())
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert imi("mcp", "install", "--dry-run", cwd=home).out.count("gets imi's tools") == 4
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert imi("mcp", "install", cwd=home).out.count("has imi's tools: ") == 4
    command = agent_servers.server_command()
    assert _entries(home) == {
        "claude": {"type": "stdio", "command": command[0], "args": command[1:]},
        "gemini": {"command": command[0], "args": command[1:]},
        "opencode": {"type": "local", "command": command, "enabled": True},
    }
    assert imi("mcp", "install", cwd=home).out.count("has imi's tools already") == 4
    assert {one["state"] for one in imi("mcp", "status", "--json", cwd=home).data["servers"]} == {"installed"}
    assert imi("mcp", "uninstall", cwd=home).out.count("has lost imi's tools") == 4
    kept = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and ".local" not in path.parts}
    assert kept == before


def test_later_changes_of_the_user_stay(home: Path) -> None:
    for name, file in FILES.items():
        (home / file).write_text(TEXTS[name])
    imi("mcp", "install", cwd=home)
    config = home / FILES["codex"]
    config.write_text(config.read_text() + '\n[mcp_servers.later]\ncommand = "y"\n')
    settings = home / FILES["claude"]
    settings.write_text(settings.read_text().replace('"z": 1', '"z": 2'))
    imi("mcp", "uninstall", cwd=home)
    assert config.read_text() == TEXTS["codex"] + '\n[mcp_servers.later]\ncommand = "y"\n'
    assert settings.read_text() == TEXTS["claude"].replace('"z": 1', '"z": 2')


@pytest.mark.parametrize("order", [("hooks", "mcp"), ("mcp", "hooks")])
@pytest.mark.parametrize("back", [("hooks", "mcp"), ("mcp", "hooks")])
def test_hooks_and_tools_share_a_file_in_any_order(home: Path, order: tuple[str, str], back: tuple[str, str]) -> None:
    for kind in order:
        assert imi(kind, "install", "gemini", cwd=home).code == 0
    assert {"hooks", "mcpServers"} == set(json.loads((home / FILES["gemini"]).read_text()))
    for kind in back:
        assert imi(kind, "uninstall", "gemini", cwd=home).code == 0
    assert not (home / FILES["gemini"]).exists(), "imi made the file"


def test_uninstall_takes_the_tools_out_everywhere(home: Path, repo: Repo) -> None:
    for name, file in FILES.items():
        (home / file).write_text(TEXTS[name])
    assert imi("mcp", "install", cwd=home).code == 0
    assert imi("mcp", "install", "claude", "--scope", "project", cwd=repo.path).code == 0
    assert "imi" in json.loads((repo.path / ".mcp.json").read_text())["mcpServers"]
    assert imi("uninstall", cwd=home).code == 0
    assert {name: (home / file).read_bytes() for name, file in FILES.items()} == {
        name: text.encode() for name, text in TEXTS.items()
    }
    assert not (repo.path / ".mcp.json").exists()


def test_what_imi_must_not_touch_is_refused(home: Path) -> None:
    for file, text, words in (
        ("claude", '{"mcpServers": {"imi": {"command": "mine"}}}', "another server called 'imi'"),
        ("claude", '{"mcpServers": []}', "is no object"),
        ("claude", "{", "line 1"),
        ("codex", 'mcp_servers = {own = {command = "x"}}\n', "not TOML"),
        ("codex", "= 3", "not TOML"),
    ):
        place = home / FILES[file]
        place.write_text(text)
        for verb in ("install", "uninstall"):
            done = imi("mcp", verb, file, cwd=home)
            if verb == "install" or words != "not TOML":
                assert done.code == 1 and words in done.err, (text, done)
            assert place.read_text() == text
    assert imi("mcp", "install", "emacs", cwd=home).code == 2
    assert "codex reads servers" in imi("mcp", "install", "codex", "--scope", "project", cwd=home).err.lower()
