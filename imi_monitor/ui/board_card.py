"""An item of the board as a card: its title, who works on it and what that agent does now, or what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from textual.content import Content

from imi_monitor.model import board, columns, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells
from imi_monitor.ui.cells import MUTED

CARD = 4  # lines of a card in a column; the last one is empty
LINE = 2  # lines of a card where one column has the whole screen
_PRIORITY = {board.HIGH: ("▲ ", "$accent bold"), board.LOW: ("▼ ", MUTED)}
_REASON = {board.BLOCKED: "$warning", board.FAILED: "$error"}

Item = Mapping[str, Any]


def lines(item: Item, width: int, height: int, agent: Agent | None, now: datetime) -> tuple[Content, ...]:
    """The card in `height` lines of at most `width` cells."""
    over = item["status"] in (board.COMPLETED, board.CANCELLED)
    title = [
        Content.styled(text, MUTED if over else "bold") for text in _wrapped(item, width, 1 if height == LINE else 2)
    ]
    mark, style = _PRIORITY.get(item["priority"], ("", ""))
    title[0] = Content.styled(mark, style).append(title[0])
    below = [one for one in (_work(item, agent, now), _place(item)) if one.plain]
    if height == LINE:
        joined = Content(" · ").join(below) if below else Content("")
        return title[0], Content("  ").append(joined).truncate(width, ellipsis=True)
    shown = [*title, *below][: height - 1]
    return tuple(one.truncate(width, ellipsis=True) for one in [*shown, *[Content("")] * (height - len(shown))])


def _wrapped(item: Item, width: int, most: int) -> list[str]:
    """The title in at most so many lines, broken between words."""
    room = width - (2 if item["priority"] in _PRIORITY else 0)
    words, made = safe(item["title"], 300).split(" "), [""]
    for place, word in enumerate(words):
        longer = f"{made[-1]} {word}" if made[-1] else word
        if columns.cell_width(longer) <= room or not made[-1]:
            made[-1] = longer
        elif len(made) < most:
            made.append(word)
            room = width
        else:
            made[-1] = " ".join([made[-1], *words[place:]])
            break
    beside = columns.cell_width(_PRIORITY.get(item["priority"], ("", ""))[0])
    return [columns.clip(one, width if number else max(4, width - beside)) for number, one in enumerate(made)]


def _work(item: Item, agent: Agent | None, now: datetime) -> Content:
    """Return what blocks the item, or its agent and what that agent does."""
    if item["error"] and item["status"] in _REASON:
        return Content.styled(safe(item["error"], 200), _REASON[item["status"]])
    if agent is not None and item["status"] == board.IN_PROGRESS:
        head = agent_cells.glyph(agent).append(f" {safe(agent.name, 40)} ")
        return head.append(agent_cells.activity(agent, short=True))
    if item["agent_id"] is None:
        return Content("")
    state = item["run_state"]
    doing = f" {safe(str(state), 20)}" if state else ""
    return Content(safe(item["agent_id"], 40)).append(Content.styled(doing, "$agent-works" if state else ""))


def _place(item: Item) -> Content:
    """`item-12 · feat-login · web · 5m`."""
    parts = [item["id"], item["worktree_name"], item["team"]]
    since = item["ended_at"] or item["started_at"] or item["created_at"]
    shown = [safe(str(one), 60) for one in parts if one]
    return Content.styled(" · ".join([*shown, times.age_of(since)]), MUTED)


def matches(item: Item, word: str) -> bool:
    """Whether a word of the filter fits: `@agent`, `is:blocked`, `batch:x`, `team:x`, `high`, or any text in it."""
    name, colon, value = word.partition(":")
    if word.startswith("@"):
        return word[1:].lower() in (item["agent_id"] or "").lower()
    if colon and name == "is":
        return value.lower().replace("-", "_") in item["status"]
    if colon and name in ("batch", "team", "repo"):
        return value.lower() in (item["repo_name" if name == "repo" else name] or "").lower()
    fields = ("id", "title", "priority", "agent_id", "worktree_name", "batch", "team", "external_id")
    return word.lower() in " ".join(str(item[one] or "") for one in fields).lower()


def in_columns(items: Sequence[Item]) -> list[list[Item]]:
    """The items of each column of the board, in their order."""
    made: list[list[Item]] = [[] for _ in board.COLUMNS]
    for one in items:
        made[board.column_of(one["status"])].append(one)
    return made
