"""The rules of CONTRIBUTING.md for names and language, enforced."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.helpers import ROOT
from tests.source_trees import nodes

PACKAGE = ROOT / "imi_monitor"
MODULES = sorted(PACKAGE.rglob("*.py"))

FAMILIES = re.compile(r"imi_monitor/sources/agents/\w+/")  # one frame of files for every agent program
SHARED_CLASS_NAMES: dict[str, str] = {}  # name: why it is defined twice
GERUNDS_THAT_ARE_NOUNS = {
    "polling",
    "sighting",
    "reading",
    "string",
    "building",
    "tracking",
    "warning",
    "setting",
    "settings",
}
METAPHORS = {
    "acting",
    "asking",
    "doing",
    "foresight",
    "granting",
    "household",
    "keeping",
    "looking",
    "marks",
    "moments",
    "once",
    "parcel",
    "picture",
    "sentry",
    "survey",
    "taking",
    "telling",
    "told",
    "wish",
}
PERSONS = re.compile(r"(?i)\b(some|no|any|every)body\b|\bwho(m|ever|mever)\b|\bsomeone\b")
MOST_FMT_SKIPS = 20
LONGEST_FUNCTION = 50


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_file_names_are_unique() -> None:
    places = defaultdict(list)
    for path in MODULES:
        if path.stem not in ("__init__", "__main__") and not FAMILIES.match(_name(path)):
            places[path.name].append(_name(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_CLASS_NAMES:
                places[node.name].append(f"{_name(path)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_modules_are_named_after_what_they_hold() -> None:
    for path in MODULES:
        for word in path.stem.strip("_").split("_"):
            assert word not in METAPHORS, f"{_name(path)}: name the thing"
            if word.endswith("ing"):
                assert word in GERUNDS_THAT_ARE_NOUNS, f"{_name(path)}: a module is named by a noun"


def test_text_names_its_subject() -> None:
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in [*MODULES, *ROOT.glob("docs/*.md"), ROOT / "README.md"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PERSONS.search(line)
    ]
    assert found == [], "say which agent, person or process"


def test_formatting_is_rarely_switched_off() -> None:
    files = [path for top in ("imi_monitor", "tests", "bench", "docs") for path in (ROOT / top).rglob("*.py")]
    assert sum(path.read_text().count("# fmt: skip") for path in files) <= MOST_FMT_SKIPS


def test_functions_are_short() -> None:
    long = [
        f"{_name(path)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


def test_help_texts_have_one_style() -> None:
    from imi_monitor import actions

    for action in actions.all_actions():
        for text in (action.help, *(option.help for option in action.options), *(a.help for a in action.arguments)):
            assert text, action.words
            assert not text.endswith("."), f"{action.words[0]}: {text!r} ends with a full stop"
        assert action.help[0].islower() or action.help.split()[0].isupper() or action.help[0] == "`", action.help
