"""Which agent program a command line is: `node …/@openai/codex/bin/codex.js` is codex, `vim codex` is not.

Programs come as native binaries, as scripts of an interpreter, and under odd names: Claude's own updater runs a file
that is called by its version. A word in a prompt or a file that only has the name must not make an agent of a process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """An agent program. `packages` are parts of the path of its files; `helpers` first words that do not start an agent."""

    cli: str
    packages: tuple[str, ...]
    helpers: frozenset[str] = frozenset()


PROGRAMS = (
    AgentProgram(
        "claude",
        ("/claude/versions/", "/@anthropic-ai/claude-code"),
        # the daemon and its spares are not agents: what runs in them has a process of its own
        frozenset({"daemon", "bg-pty-host", "bg-spare", "mcp", "update", "install", "doctor", "agents", "config"}),
    ),
    # the app-server's folder is that of whoever started it first, whatever its threads work on
    AgentProgram("codex", ("/@openai/codex",), frozenset({"app-server", "mcp-server", "mcp", "login", "completion"})),
    AgentProgram("gemini", ("/@google/gemini-cli/",), frozenset({"mcp", "extensions"})),
    AgentProgram("qwen", ("/@qwen-code/qwen-code/",), frozenset({"mcp", "extensions"})),
    AgentProgram("opencode", ("/opencode-ai/",), frozenset({"auth", "upgrade", "models", "mcp"})),
    AgentProgram("copilot", ("/@github/copilot",), frozenset({"mcp", "login", "update"})),
    AgentProgram("aider", ("/site-packages/aider/",)),
)
_BY_NAME = {one.cli: one for one in PROGRAMS}

_INTERPRETER = re.compile(r"^(node|nodejs|bun|deno|(ba|da|z)?sh|python[0-9.]*|pypy[0-9.]*|Python)$")
_ENDING = re.compile(r"\.(exe|cmd|js|mjs|cjs|py|sh)$")
_WITH_A_VALUE = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W"})
_FIRST_WORDS = 4  # a helper's word stands in front; later ones may be anybody's prompt


@dataclass(frozen=True, slots=True)
class ProgramMatch:
    """What a command line turned out to be. `wrapped`: an interpreter runs it; its child may be the program proper."""

    cli: str
    wrapped: bool
    helper: bool


def match_program(comm: str, argv: Sequence[str], exe: str | None = None) -> ProgramMatch | None:
    """The agent program of a process, or None. `comm` is what the system calls it; `exe` the file it runs, if known."""
    if not argv:  # a thread of the kernel, or a process that is just ending
        return None
    first = os.path.basename(argv[0])
    if _INTERPRETER.match(first):
        at = _script_at(argv)
        program = _of_script(argv[at], module=at > 0 and argv[at - 1] == "-m") if at else None
        return None if program is None else ProgramMatch(program.cli, True, _is_helper(program, argv[at + 1 :]))
    program = _BY_NAME.get(_stem(first)) or _BY_NAME.get(_stem(comm)) or _of_path(argv[0]) or _of_path(exe or "")
    return None if program is None else ProgramMatch(program.cli, False, _is_helper(program, argv[1:]))


def _script_at(argv: Sequence[str]) -> int:
    """Which argument names the script that an interpreter runs; 0: none does."""
    skip = False
    for number, word in enumerate(argv[1:], 1):
        if skip:
            skip = False
        elif word == "-m":
            return number + 1 if number + 1 < len(argv) else 0
        elif word in ("-c", "-e", "-p", "--eval", "--print"):
            return 0
        elif word in _WITH_A_VALUE:
            skip = True
        elif word not in ("run", "x") and not word.startswith("-"):  # `bun run …`, `deno run …`
            return number
    return 0


def _of_script(script: str, module: bool) -> AgentProgram | None:
    if module:
        return _BY_NAME.get(script.split(".")[0])
    folder, base = os.path.split(script)
    installed = os.path.basename(folder) in ("bin", ".bin", "shims")
    return _of_path(script) or (_BY_NAME.get(_stem(base)) if installed else None)


def _of_path(path: str) -> AgentProgram | None:
    path = path.replace("\\", "/")
    return next((one for one in PROGRAMS if any(part in path for part in one.packages)), None)


def _stem(base: str) -> str:
    return _ENDING.sub("", base)


def _is_helper(program: AgentProgram, words: Sequence[str]) -> bool:
    front = [word.lstrip("-") for word in words[:_FIRST_WORDS]]
    return bool(front) and (front[0] in program.helpers or (program.cli == "codex" and "app-server" in front))
