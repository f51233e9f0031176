"""Items from the files people write: priorities in Markdown (`reports/*.md`) and definitions in JSON (`tasks/*.json`).

Markdown has one of three shapes: blocks under `# Priority N`, lists with tick boxes, or one item for each `## ` heading, else
one for the file. A ticked box is done and makes no item. A definition makes one item for each deliverable, else one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from imi_monitor.model import board

MOST_ITEMS = 500
_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_NUMBERED = re.compile(r"^priority\s+#?(\d{1,4})\b[\s:.\-–—)]*(.*)$", re.IGNORECASE)
_BOX = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[([ xX])\]\s+(.*\S)")
_FIELD = re.compile(r"^\s*(?:[-*+]\s+)?\*\*([\w ]{1,40}?):?\*\*:?\s*(.*)$")
_LEVELS = ("priority level", "priority")
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")


@dataclass(frozen=True, slots=True)
class FileItem:
    """One item that a file makes. `number` is its place among the file's items, `sha256` its content."""

    number: int
    title: str
    text: str
    priority: str
    sha256: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class FileItems:
    """What a file says: its items, its title, the number of ticked boxes; or why it cannot be read."""

    items: tuple[FileItem, ...] = ()
    title: str = ""
    done: int = 0
    kind: str | None = None
    problem: str | None = None


def parse(name: str, text: str) -> FileItems:
    """The items of a file by its name: JSON, or else Markdown."""
    return _definition(name, text) if name.endswith(".json") else _markdown(name, text)


def date_of(name: str) -> str:
    """The date in a file's name as `2026-11-19`; empty without one."""
    found = _DATE.search(name)
    return "-".join(found.groups()) if found else ""


# -- Markdown ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _MarkdownLine:
    text: str
    level: int = 0  # of a heading; 0: no heading
    heading: str = ""


def _markdown(name: str, text: str) -> FileItems:
    lines = _read_lines(text)
    if not any(line.text.strip() for line in lines):
        return FileItems(problem="the file is empty")
    title = next((line.heading for line in lines if line.level), _stem(name))
    blocks = list(_blocks(lines))
    if blocks:
        made = [_block_item(number, *block) for number, block in enumerate(blocks, 1)]
        return FileItems(tuple(made[:MOST_ITEMS]), title)
    boxes, done = _boxes(lines)
    if boxes or done:
        return FileItems(tuple(boxes[:MOST_ITEMS]), title, done)
    level = _level_of(lines)
    parts = [(heading, body) for heading, body in _sections(lines, 2) if heading]
    found = parts or [(title, [line for line in lines if line.heading != title])]
    items = [_item(number, heading, _joined(body), level) for number, (heading, body) in enumerate(found, 1)]
    return FileItems(tuple(items[:MOST_ITEMS]), title)


def _read_lines(text: str) -> list[_MarkdownLine]:
    """The lines; what stands between fences is no heading."""
    made, fenced = [], False
    for line in text.replace("\r\n", "\n").split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        made.append(_MarkdownLine(line, len(found.group(1)), _plain(found.group(2))) if found else _MarkdownLine(line))
    return made


def _sections(lines: list[_MarkdownLine], level: int) -> Iterator[tuple[str, list[_MarkdownLine]]]:
    """(heading, lines below it) for each heading of this level."""
    heading, body = "", []  # type: tuple[str, list[_MarkdownLine]]
    for line in lines:
        if line.level and line.level <= level:
            yield heading, body
            heading, body = line.heading if line.level == level else "", []
        else:
            body.append(line)
    yield heading, body


def _blocks(lines: list[_MarkdownLine]) -> Iterator[tuple[int, str, list[_MarkdownLine]]]:
    """(its number, heading behind the number, lines) of each `# Priority N`, at whatever level they stand."""
    levels = [line.level for line in lines if line.level and _NUMBERED.match(line.heading)]
    if not levels:
        return
    level = min(levels)
    for heading, body in _sections(lines, level):
        found = _NUMBERED.match(heading)
        if found:
            yield int(found.group(1)), found.group(2), body


def _block_item(number: int, place: int, heading: str, body: list[_MarkdownLine]) -> FileItem:
    fields = _fields(body)
    said = board.priority_of(fields.get("priority", "")) or board.priority_of(fields.get("priority level", ""))
    by_place = board.PRIORITIES[min(max(place, 1), len(board.PRIORITIES)) - 1]
    plain = next((line.text for line in body if line.text.strip() and not _FIELD.match(line.text)), "")
    title = heading or _sentence(fields.get("description", "")) or _sentence(plain) or f"Priority {place}"
    return _item(number, title, _joined(body), said or by_place)


def _fields(body: list[_MarkdownLine]) -> dict[str, str]:
    """`**Description:** text` as a dictionary with names in lower case."""
    found = [match for line in body if (match := _FIELD.match(line.text))]
    return {match.group(1).strip().lower(): match.group(2).strip() for match in found}


def _level_of(lines: list[_MarkdownLine]) -> str:
    fields = _fields(lines)
    return next((word for name in _LEVELS if (word := board.priority_of(fields.get(name, "")))), board.MEDIUM)


def _boxes(lines: list[_MarkdownLine]) -> tuple[list[FileItem], int]:
    """An item for each box that is not ticked, with the headings above it; and the number of ticked ones."""
    above: list[str] = []
    items: list[FileItem] = []
    done, level = 0, _level_of(lines)
    for line in lines:
        if line.level:
            above = [*above[: line.level - 1], *[""] * (line.level - 1 - len(above)), line.heading]
            continue
        box = _BOX.match(line.text)
        if box is None:
            continue
        if box.group(1) != " ":
            done += 1
            continue
        items.append(_item(len(items) + 1, _plain(box.group(2)), " / ".join(filter(None, above)), level))
    return items, done


def _item(number: int, title: str, text: str, priority: str, kind: str | None = None) -> FileItem:
    content = f"{title}\n{text}".encode("utf-8", "replace")
    return FileItem(number, title, text, priority, sha256(content).hexdigest(), kind)


def _joined(body: list[_MarkdownLine]) -> str:
    return "\n".join(line.text.rstrip() for line in body).strip()


def _plain(text: str) -> str:
    """Return the text without the signs of emphasis, code and links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "").replace("`", "").strip()


def _sentence(text: str) -> str:
    return _plain(re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]).rstrip(".")


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0] or name


# -- definitions ------------------------------------------------------------------------------------------------------


def _definition(name: str, text: str) -> FileItems:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        return FileItems(problem=f"the file is no JSON{where}")
    if not isinstance(found, dict):
        return FileItems(problem="the file is no JSON object")
    kind = _word(found.get("type"))
    priority = board.priority_of(_word(found.get("priority")) or "") or board.MEDIUM
    title = next((word for key in ("title", "name") if (word := _word(found.get(key)))), _stem(name))
    audience = _word(found.get("target_audience"))
    given = found.get("deliverables")
    wanted = given if isinstance(given, list) and given else [None]
    items = []
    for number, one in enumerate(wanted[:MOST_ITEMS], 1):
        named = _deliverable(one) or title
        shown = f"{named} for {audience}" if audience else named
        items.append(_item(number, shown, _definition_text(found, one), priority, kind))
    return FileItems(tuple(items), title, kind=kind)


def _deliverable(one: object) -> str | None:
    if isinstance(one, Mapping):
        return next((word for key in ("title", "name", "type", "description") if (word := _word(one.get(key)))), None)
    return _word(one)


def _definition_text(found: Mapping[str, object], one: object) -> str:
    """The deliverable's own fields, then those of the definition."""
    own = one if isinstance(one, Mapping) else {}
    rest = {key: value for key, value in found.items() if key != "deliverables"}
    return "\n".join(f"{key}: {_shown(value)}" for key, value in {**rest, **own}.items())


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _word(value: object) -> str | None:
    return str(value).strip() or None if isinstance(value, str | int | float) and not isinstance(value, bool) else None
