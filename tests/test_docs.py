"""The documentation is current: generated pages, promises with their tests, links."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from tests.helpers import ROOT


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


def test_links_between_documents_lead_somewhere() -> None:
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
