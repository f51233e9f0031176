"""Fuzzy matching of typed letters with a name: equal, a prefix, a part, or its letters in order."""

from __future__ import annotations

from enum import IntEnum


class MatchQuality(IntEnum):
    """How well a text matches; smaller is better."""

    EXACT = 0
    PREFIX = 1
    PART = 2
    LETTERS = 3


def match(query: str, text: str) -> MatchQuality | None:
    """Return how `text` matches `query`, ignoring case; None when it does not. An empty query matches nothing."""
    wanted, within = query.casefold(), text.casefold()
    if not wanted:
        return None
    if within == wanted:
        return MatchQuality.EXACT
    if within.startswith(wanted):
        return MatchQuality.PREFIX
    if wanted in within:
        return MatchQuality.PART
    return MatchQuality.LETTERS if _in_order(wanted, within) else None


def _in_order(wanted: str, within: str) -> bool:
    left = iter(within)
    return all(char in left for char in wanted)
