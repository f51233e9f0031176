"""The bridge of an aider on its own screen: types its first prompt, and records its chat history and what the terminal shows.

The history has a question only when it is answered, so the terminal says what aider asks and whether it is at its prompt.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any, Final

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import ImiError
from imi_monitor.runs import ways
from imi_monitor.runs.aider_bridge import AiderBridge

ASKS, READY, BUSY = "asks", "ready", "busy"
_LOOKS: Final = 1.0  # seconds between two looks at the terminal
_BEFORE_ENTER = 0.5  # seconds
_AGAIN = 5.0  # seconds after which enter is pressed again if the prompt was not taken
_QUESTION = re.compile(r"(\S.*?)\s*(\((?:Y\)es|D\)on't).*)\[\w*\]:\s*")
_CHOICE = re.compile(r"\((\w)\)([^/\[]*)")
_PROMPT = re.compile(r"[\w -]{0,40}> ?(.*)")
_MOST_ROWS = 4  # of one question in a narrow terminal
_MOST_ABOVE = 8  # lines that say what is asked about
_MOST_TEXT = 400


@dataclass(frozen=True, slots=True)
class AiderScreen:
    """`kind`: asks, ready (at its prompt), or busy. `typed`: what stands at the prompt."""

    kind: str
    text: str = ""
    choices: tuple[str, ...] = ()
    typed: str = ""


def read(screen: str) -> AiderScreen:
    """What an aider's terminal shows: its last lines decide."""
    lines = [line.rstrip() for line in screen.rstrip().splitlines()]
    for rows in range(1, min(_MOST_ROWS, len(lines)) + 1):
        found = _QUESTION.fullmatch("".join(lines[-rows:]))
        if found is not None:
            return AiderScreen(ASKS, _asked(lines[:-rows], found[1]), _choices(found[2]))
    prompt = _PROMPT.fullmatch(lines[-1]) if lines else None
    return AiderScreen(BUSY) if prompt is None else AiderScreen(READY, typed=prompt[1].strip())


def keys(text: str, choices: tuple[str, ...]) -> list[str]:
    """The keys for one of these choices."""
    return [choices[choices.index(text)][0].lower(), "Enter"]


def _choices(options: str) -> tuple[str, ...]:
    return tuple(f"{letter}{rest}".strip() for letter, rest in _CHOICE.findall(options))


def _asked(above: list[str], question: str) -> str:
    """The question, and the lines right above it that say what it is about."""
    about: list[str] = []
    for line in reversed(above[-_MOST_ABOVE:]):
        if not line.strip() or set(line) <= set("─ "):
            break
        about.insert(0, line.strip())
    return " ".join([question, *about])[:_MOST_TEXT]


class AiderScreenBridge(AiderBridge):
    _asks = 0

    def start(self) -> None:
        self._last: dict[str, Any] = {}
        self._next = self._typed_at = 0.0
        self.begin()
        self.start_screen(self.command())

    def receive(self) -> None:
        super().receive()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOOKS
            with suppress(ImiError):  # its terminal does not answer now
                self._look(read(ways.of(self.folder).screen(self.folder)))

    def _look(self, found: AiderScreen) -> None:
        if not self.prompted and found.kind == READY:
            self._type(found)
            return
        asked = self._last.get("ask") if self._last.get("screen") == ASKS else None
        if found.kind == ASKS and (asked is None or asked["text"] != found.text):
            self._asks += 1
            asked = {"id": f"screen-{self._asks}", "text": found.text, "choices": list(found.choices)}
        seen = {"screen": found.kind, "ask": asked if found.kind == ASKS else None}
        if seen != self._last:
            self._last = seen
            self.note(seen)

    def _type(self, found: AiderScreen) -> None:
        """Type the first prompt once aider is at its own, and press enter until its history has it."""
        way = ways.of(self.folder)
        if self._typed_at:
            if time.monotonic() < self._typed_at + _AGAIN:
                return
        elif found.typed:
            return  # a person types
        else:
            way.type(self.folder, str(self.plan["prompt"]))
            time.sleep(_BEFORE_ENTER)
        self._typed_at = time.monotonic()
        way.press(self.folder, "Enter")

    def show_end(self) -> None:
        return  # the terminal has shown it
