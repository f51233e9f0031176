"""Recognising agent programs by their command lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor import config, paths
from imi_monitor.model.errors import UsageError
from imi_monitor.sources.agents import known_programs
from imi_monitor.sources.agents.process_names import ProgramMatch, ProgramNames

match = ProgramNames(known_programs()).match

NODE = "/home/dev/.nvm/versions/node/v20.20.0"
AGENTS = [
    ("claude", "claude", ["claude"], False),
    ("claude", "claude", ["claude", "--resume", "1111"], False),
    ("claude", "claude.exe", ["/usr/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"], False),
    ("claude", "2.1.326", ["/Users/dev/.local/share/claude/versions/2.1.326", "-p", "daemon"], False),
    ("claude", "node", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"], True),
    ("claude", "claude", ["/bin/bash", "/usr/local/bin/claude"], True),
    ("codex", "node", ["node", "/usr/local/bin/codex", "exec", "fix app-server"], True),
    ("codex", "MainThread", ["node", f"{NODE}/lib/node_modules/@openai/codex/bin/codex.js"], True),
    ("codex", "codex", ["/x/@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex", "resume"], False),
    ("gemini", "node", ["/usr/bin/node", "--max-old-space-size=8192", "/usr/bin/gemini", "-p", "mcp"], True),
    ("gemini", "node", ["node", "-r", "x.js", f"{NODE}/lib/node_modules/@google/gemini-cli/dist/index.js"], True),
    ("qwen", "node", ["node", "/x/node_modules/.bin/qwen"], True),
    ("opencode", "opencode", ["opencode", "run", "hello"], False),
    ("opencode", ".opencode", ["/x/node_modules/opencode-ai/bin/.opencode"], False),
    ("copilot", "copilot", ["/x/node_modules/@github/copilot-linux-x64/copilot"], False),
    ("copilot", "node", ["node", "/usr/bin/copilot"], True),
    ("aider", "aider", ["/v/bin/python3", "/v/bin/aider", "--model", "x"], True),
    ("aider", "python3.11", ["python3.11", "-X", "utf8", "-m", "aider"], True),
    ("aider", "python", ["python", "/v/lib/python3.11/site-packages/aider/__main__.py"], True),
    ("amp", "node", ["node", "/x/node_modules/@sourcegraph/amp/dist/main.js"], True),
    ("crush", "crush", ["crush"], False),
    ("goose", "goose", ["goose"], False),
    ("goose", "goose", ["/home/dev/.local/bin/goose", "session", "--resume"], False),
    ("cursor", "cursor-agent", ["/home/dev/.local/bin/cursor-agent", "-p", "x"], False),
    ("droid", "droid", ["droid", "exec", "x"], False),
    ("kimi", "Kimi Code", ["Kimi Code"], False),
    ("kimi", "kimi-code", ["kimi-code", "", "", ""], False),
    ("kimi", "node", ["node", "/x/node_modules/@moonshot-ai/kimi-code/dist/main.mjs"], True),
    ("kimi", "python3", ["/v/bin/python3", "/v/bin/kimi"], True),
    ("kiro", "kiro-cli", ["kiro-cli", "chat"], False),
]
HELPERS = [
    ("claude", ["claude", "daemon", "run"]),
    ("claude", ["claude", "bg-pty-host", "--x"]),
    ("claude", ["/x/claude", "--bg-spare"]),
    ("codex", ["/x/codex", "app-server", "--listen", "unix://"]),
    ("codex", ["codex-linux-sandbox", "--sandbox-policy-cwd", "/w", "--command-cwd", "/w", "--", "/bin/bash"]),
    ("codex", ["node", "/usr/bin/codex", "-c", "a=b", "app-server"]),
    ("claude", ["claude", "mcp", "serve"]),
    ("goose", ["goose", "-dir", "migrations", "up"]),
    ("kimi", ["kimi", "login"]),
]
OTHERS = [
    ("vim", ["vim", "codex"]),
    ("bash", ["bash", "-c", "claude -p hello"]),
    ("bash", ["-bash"]),
    ("node", ["node", "/home/dev/app/gemini.js"]),
    ("node", ["node", "-e", "require('codex')", "/usr/bin/codex"]),
    ("python3", ["python3", "/home/dev/aider.py"]),
    ("python3", ["python3", "-m", "pytest", "aider"]),
    ("python3", ["python3", "-m"]),
    ("tmux: server", ["tmux", "new-session", "claude"]),
    ("tail", ["tail", "-f", "/home/dev/.claude/claude.log"]),
    ("grep", ["grep", "-r", "opencode"]),
    ("codex-linux-san", ["codex-linux-sandbox", "bash"]),
    ("cursor", ["/usr/share/cursor/cursor", "--type=renderer"]),
    ("kiro", ["/usr/share/kiro/kiro", "."]),
    ("kworker/0:1", []),
]


@pytest.mark.parametrize(("cli", "comm", "argv", "wrapped"), AGENTS, ids=lambda each: str(each)[:60])
def test_agent_command_lines_are_recognised(cli: str, comm: str, argv: list[str], wrapped: bool) -> None:
    assert match(comm, argv) == ProgramMatch(cli, wrapped, helper=False)


@pytest.mark.parametrize(("cli", "argv"), HELPERS, ids=lambda each: str(each)[:60])
def test_helper_command_lines_are_no_agents(cli: str, argv: list[str]) -> None:
    found = match(cli, argv)
    assert found is not None
    assert (found.cli, found.helper) == (cli, True)


@pytest.mark.parametrize(("comm", "argv"), OTHERS, ids=lambda each: str(each)[:60])
def test_a_program_name_among_arguments_is_no_agent(comm: str, argv: list[str]) -> None:
    assert match(comm, argv) is None


def test_a_binary_named_by_its_version_is_recognised_by_its_folder() -> None:
    path = "/home/dev/.local/share/claude/versions/2.1.326"
    assert match("2.1.326", ["me"]) is None
    assert match("2.1.326", ["me"], path) == ProgramMatch("claude", False, False)


WORDS = st.sampled_from(
    ["node", "python3", "-m", "-r", "-e", "run", "claude", "/usr/bin/codex", "aider", "app-server", "-", ""]
)


@given(st.text(max_size=15), st.lists(WORDS | st.text(max_size=8), max_size=8), st.none() | st.text(max_size=30))
def test_any_command_line_raises_nothing(comm: str, argv: list[str], exe: str | None) -> None:
    found = match(comm, argv, exe)
    assert found is None or found.cli in ("claude", "codex", "gemini", "qwen", "opencode", "copilot", "kimi", "aider")


def test_a_user_adds_programs() -> None:
    write_config('[agents.programs]\nmybot = "mybot-cli /opt/mybot/"')
    own = ProgramNames(known_programs()).match
    assert own("mybot-cli", ["mybot-cli", "fix it"]) == ProgramMatch("mybot", False, False)
    assert own("node", ["node", "/opt/mybot/main.js"]) == ProgramMatch("mybot", True, False)
    assert own("mybot", ["mybot"]) is None
    write_config("[agents.programs]\nmybot = 1")
    assert [one.cli for one in known_programs()][-1] != "mybot", "what every command refuses hides no other program"


@pytest.mark.parametrize("line", ["MyBot = 'x2'", "mybot = ''", "mybot = '/'", "mybot = ['x']", "'my bot' = 'xy'"])
def test_bad_programs_are_refused(line: str) -> None:
    write_config(f"[agents.programs]\n{line}")
    with pytest.raises(UsageError, match=r"agents\.programs"):
        config.load()


def test_a_repository_adds_no_programs(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[agents.programs]\nmybot = 'mybot'")
    with pytest.raises(UsageError, match="not allowed"):
        config.load(str(tmp_path / "config.toml"))


def write_config(text: str) -> None:
    place = Path(paths.config_file())
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
