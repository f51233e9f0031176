"""Writes the tests behind each promise of docs/promises.md, found by the comments `# S2.9` in tests/ and bench/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "promises.md"
PROMISE = re.compile(r"^- \*\*(?P<id>[A-Z]\d+(?:\.\d+)?)\*\* (?P<status>kept|partly|open): (?P<text>.*?)(?: → .*)?$")
_ID = r"[A-Z]\d+(?:\.\d+)?"
_IDS = re.compile(rf"#\s*({_ID}(?:(?:[ ,]+|-){_ID})*)\b")
_SHOWN = 4  # tests named per promise; the comments in the tests are the whole list


def read(text: str) -> dict[str, str]:
    """The status of each promise by its id."""
    return {m["id"]: m["status"] for line in text.splitlines() if (m := PROMISE.match(line))}


@cache
def references() -> dict[str, list[str]]:
    """The tests (`tests/x.py::test_y`, or the file for an id in its docstring) that carry each id."""
    found: dict[str, list[str]] = {}
    for folder in ("tests", "bench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for place, identity in _of_file(path):
                places = found.setdefault(identity, [])
                if place not in places:
                    places.append(place)
    return found


def updated(text: str) -> str:
    """The page with the tests of today behind each promise."""
    tests = references()
    lines = []
    for line in text.splitlines():
        if match := PROMISE.match(line):
            places = tests.get(match["id"], [])
            more = " and more" if len(places) > _SHOWN else ""
            shown = ", ".join(f"`{place}`" for place in places[:_SHOWN]) + more
            line = f"- **{match['id']}** {match['status']}: {match['text']}" + (f" → {shown}" if places else "")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text()
    name = str(path.relative_to(ROOT))
    tree = ast.parse(source)
    tests = sorted(
        (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
    heading = len((ast.get_docstring(tree) or "").splitlines())
    for line, text in enumerate(source.splitlines(), 1):
        for identity in _ids(text):
            if line <= heading:
                yield name, identity
                continue
            around = [test for test in tests if test[0] <= line <= test[1]] or [t for t in tests if t[0] > line][:1]
            yield (f"{name}::{around[0][2]}" if around else name), identity


def _ids(text: str) -> Iterator[str]:
    """The ids named in a comment; `S4.4-S4.8` is a range."""
    for match in _IDS.finditer(text):
        for word in re.split(r"[ ,]+", match[1]):
            first, _, last = word.partition("-")
            if not last:
                yield first
                continue
            area, start = first.split(".")
            yield from (f"{area}.{number}" for number in range(int(start), int(last.split(".")[1]) + 1))


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text()))


if __name__ == "__main__":
    main()
