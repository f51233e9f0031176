"""No function, method or class of the package is unused. Textual and the standard library call some by their names."""

from __future__ import annotations

import pytest

from tests.helpers import ROOT

CALLED_BY_NAME = (
    "on_*",
    "_on_*",
    "do_*",
    "action_*",
    "watch_*",
    "key_*",
    "validate_*",
    "compose",
    "get_default_screen",
)
USED_ELSEWHERE = {
    "measure_requested": "the program of the process that measures folders",
    "redirect_request": "urllib calls it",
    "Reducer": "the bound of a type variable, whose name is a text",
    "read_first_snapshot": "called by its name, in the process beside the start",
    "__init_subclass__": "Python calls it",
    "get_driver_class": "Textual calls it",
    "can_suspend": "Textual reads it",
    "check_action": "Textual calls it",
    "panic": "Textual calls it",
    "_print_error_renderables": "Textual calls it",
    "_run_input_thread": "Textual calls it",
    "_update_timer": "Textual reads it",
    "is_painted": "Textual reads it",
    "declared_keys": "docs/generate_commands.py writes the command table with it",
}


@pytest.fixture(scope="module")
def unused() -> dict[str, str]:
    from vulture import Vulture

    vulture = Vulture(ignore_names=list(CALLED_BY_NAME), ignore_decorators=["@on", "@on(*"])
    vulture.scavenge([str(ROOT / "imi_monitor")])
    return {
        item.name: f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in vulture.get_unused_code()
        if item.typ in ("function", "method", "class", "property", "import", "unreachable_code")
    }


def test_no_code_is_unused(unused: dict[str, str]) -> None:
    assert [place for name, place in unused.items() if name not in USED_ELSEWHERE] == []


def test_the_exceptions_are_needed(unused: dict[str, str]) -> None:
    assert sorted(set(USED_ELSEWHERE) - set(unused)) == []
