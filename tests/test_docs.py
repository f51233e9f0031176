"""The documentation is current: generated pages, promises with their tests, links."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.helpers import ROOT


@cache
def _generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_promise_named_in_a_test_is_listed() -> None:
    promises = _generator("generate_promises")
    listed = promises.read(promises.PAGE.read_text())
    unknown = {identity: tests for identity, tests in promises.references().items() if identity not in listed}
    assert not unknown, "docs/promises.md does not list these ids"


def test_every_kept_promise_names_a_test_that_exists() -> None:
    promises = _generator("generate_promises")
    tests = promises.references()
    listed = promises.read(promises.PAGE.read_text())
    assert not [identity for identity, status in listed.items() if status == "kept" and identity not in tests]


def test_the_tests_behind_each_promise_are_current() -> None:
    promises = _generator("generate_promises")
    text = promises.PAGE.read_text()
    assert promises.updated(text) == text, "run `make docs`"


def test_links_between_documents_lead_somewhere() -> None:  # S4.29
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_path_named_in_the_documents_exists() -> None:
    for page in [ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        if page.name == "promises.md":
            continue
        for named in re.findall(r"`((?:imi_monitor|tests|bench|docs|styles|snapshots)/[\w./-]+)`", page.read_text()):
            assert (ROOT / named).exists() or list(Path(ROOT).glob(named)), f"{page.name} names {named}"


def test_every_test_named_in_the_documents_exists() -> None:
    found = 0
    for page in ROOT.glob("docs/*.md"):
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
            assert re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text(), re.M), (
                f"{page.name}: {path}::{name}"
            )
            found += 1
    assert found > 25


def test_the_threat_model_names_a_test_for_each_line() -> None:
    text = (ROOT / "docs" / "safety.md").read_text().partition("## Who may attack")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if "::" not in row[-1] and "not covered yet" not in " ".join(row)] == []
