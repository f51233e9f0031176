"""Finds a dialog with numbered choices in what a terminal shows."""

from __future__ import annotations

import re

from imi_monitor.fast.frozen_dataclass import dataclass

_CHOICE = re.compile(r"[●❯›>*\s]*(\d)\.\s+(\S.*)")
_FRAME = str.maketrans(dict.fromkeys("│┃╭╮╰╯─━═║╔╗╚╝├┤", " "))
_MOST_LINES = 14  # of a dialog above its choices
_MOST_TEXT = 400


@dataclass(frozen=True, slots=True)
class ScreenDialog:
    """`text` is what stands above the choices, in one line; the marker of the chosen one is left out."""

    text: str
    choices: tuple[str, ...]


def find(screen: str) -> ScreenDialog | None:
    """The last dialog on the screen: its choices are numbered from 1, and a frame or an empty line is above it."""
    lines = screen.splitlines()
    plain = [line.translate(_FRAME).strip() for line in lines]
    found = [number for number, line in enumerate(plain) if _number(line) == 1]
    if not found:
        return None
    first = found[-1]
    choices: list[str] = []
    for line in plain[first:]:
        match = _CHOICE.fullmatch(line)
        if match is None or int(match[1]) != len(choices) + 1:
            if line and choices and _number(line) is None and not match:
                break
            continue
        choices.append(match[2].strip())
    above: list[str] = []
    for number in range(first - 1, max(-1, first - 1 - _MOST_LINES), -1):
        if plain[number]:
            above.insert(0, plain[number])
        if lines[number].lstrip().startswith("╭") and _is_outer(lines[number], lines[first]):
            break
    text = " ".join(" ".join(above).split())[-_MOST_TEXT:]
    return ScreenDialog(text, tuple(choices)) if len(choices) > 1 and text else None


def _number(line: str) -> int | None:
    match = _CHOICE.fullmatch(line)
    return int(match[1]) if match else None


def _is_outer(top: str, choice: str) -> bool:
    """Whether this is the upper edge of the frame around the choices, and not of one inside of it."""
    return len(top) - len(top.lstrip()) <= len(choice) - len(choice.lstrip())
