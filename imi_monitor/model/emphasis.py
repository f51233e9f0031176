"""Which words of a changed line are the changed ones: found cheaply, for the few lines that are on the screen."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_MOST_WORDS = 120
_ALIKE = 0.5  # below that the lines are different ones, and marking everything marks nothing

Spans = tuple[tuple[int, int], ...]


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """The (start, end) of what is only in the old and only in the new line; nothing when they have little in common."""
    left, right = _WORDS.findall(old[:1000]), _WORDS.findall(new[:1000])
    if old == new or not left or not right or max(len(left), len(right)) > _MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    same = sum(len("".join(left[block.a : block.a + block.size])) for block in matcher.get_matching_blocks())
    if 2 * same < _ALIKE * (len(old) + len(new)):
        return (), ()
    places = [
        (_at(left, i1), _at(left, i2), _at(right, j1), _at(right, j2))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]
    return (
        tuple((start, end) for start, end, _, _ in places if start < end),
        tuple((start, end) for _, _, start, end in places if start < end),
    )


def _at(words: list[str], index: int) -> int:
    return sum(map(len, words[:index]))
