"""Files that are made from declarations in the code are current, and the declarations are complete."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import GROUPS
from tests.helpers import ROOT


def generator() -> ModuleType:
    """docs/generate_commands.py as a module."""
    spec = importlib.util.spec_from_file_location("generate_commands", ROOT / "docs" / "generate_commands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = generator()


@pytest.mark.parametrize("name", GENERATOR.FILES)
def test_a_generated_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == GENERATOR.FILES[name](), "run `make docs`"


def test_every_verb_leads_to_its_action() -> None:
    for verb in actions.verbs():
        found = actions.find(verb)
        assert found is not None and verb in found.words and found.group in GROUPS, verb
    assert actions.find("claimm") is None
