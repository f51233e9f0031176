"""Recognises agent programs by their command lines: `node …/@openai/codex/bin/codex.js` is codex, `vim codex` is not.

Programs run as native binaries, as scripts of an interpreter, and under unusual names: Claude's updater runs a file named
after its version. A word in a prompt, or a file that only has the name, must not be taken for an agent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor.sources.agents.agent_reader import AgentProgram

_INTERPRETER = re.compile(r"^(node|nodejs|bun|deno|(ba|da|z)?sh|python[0-9.]*|pypy[0-9.]*|Python)$")
_ENDING = re.compile(r"\.(exe|cmd|js|mjs|cjs|py|sh)$")
_WITH_A_VALUE = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W"})
_FIRST_WORDS = 4  # arguments among which a helper's word stands; later ones may belong to a prompt


@dataclass(frozen=True, slots=True)
class ProgramMatch:
    """`wrapped`: an interpreter runs it; its child may be the program itself. `helper`: it is no agent."""

    cli: str
    wrapped: bool
    helper: bool


class ProgramNames:
    def __init__(self, programs: Sequence[AgentProgram]) -> None:
        self._programs = programs
        self._by_name = {name: one for one in programs for name in one.commands or (one.cli,)}

    def match(self, comm: str, argv: Sequence[str], exe: str | None = None) -> ProgramMatch | None:
        """The agent program of a process. `comm`: its name in the process table; `exe`: the file it runs, if known."""
        if not argv:  # a thread of the kernel, or a process that is ending
            return None
        first = os.path.basename(argv[0])
        if _INTERPRETER.match(first):
            at = _script_index(argv)
            program = self._of_script(argv[at], module=at > 0 and argv[at - 1] == "-m") if at else None
            return None if program is None else ProgramMatch(program.cli, True, _is_helper(program, argv[at + 1 :]))
        program = self._by_name.get(_stem(first)) or self._by_name.get(_stem(comm))
        program = program or self._of_path(argv[0]) or self._of_path(exe or "")
        return None if program is None else ProgramMatch(program.cli, False, _is_helper(program, argv[1:]))

    def _of_script(self, script: str, module: bool) -> AgentProgram | None:
        if module:
            return self._by_name.get(script.split(".")[0])
        folder, base = os.path.split(script)
        installed = os.path.basename(folder) in ("bin", ".bin", "shims")
        return self._of_path(script) or (self._by_name.get(_stem(base)) if installed else None)

    def _of_path(self, path: str) -> AgentProgram | None:
        path = path.replace("\\", "/")
        return next((one for one in self._programs if any(part in path for part in one.packages)), None)


def _script_index(argv: Sequence[str]) -> int:
    """The index of the script that an interpreter runs; 0 if it runs none."""
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


def _stem(base: str) -> str:
    return _ENDING.sub("", base)


def _is_helper(program: AgentProgram, words: Sequence[str]) -> bool:
    front = [word.lstrip("-") for word in words[:_FIRST_WORDS]]
    if program.starters and front and front[0] not in program.starters:
        return True
    return bool(front) and (front[0] in program.helpers or not program.helpers_anywhere.isdisjoint(front))
