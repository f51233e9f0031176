"""The command line of a request parses into the same request and can be pasted into a shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor import actions
from imi_monitor.actions import command_line
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.cli import argument_parser
from tests.helpers import Repo

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
CASES: list[tuple[str, dict[str, object]]] = [
    ("claim", {"name": "feat-api"}),
    (
        "claim",
        {"name": "feat-api", "agent": "claude-1", "ttl": 900.0, "force": True, "reason": "it's \x1b]0;x\x07 [/b]"},
    ),
    ("remove", {"name": "-odd", "force": True, "yes-really": "-odd"}),
    ("add", {"type": "feat", "name": "user auth", "from": "--upload-pack=x"}),
    ("merge", {"name": "feat-api", "no-ff": True, "message": ""}),
    ("undo", {}),
    ("repair", {"path": ["/a b", "-c"]}),
    ("claims", {"history": "feat-api", "limit": 5.0}),
    ("types add", {"name": "docs"}),
]


def words(verb: str, values: dict[str, object]) -> list[str]:
    action = actions.find(verb)
    assert action is not None
    with Context() as context:
        return command_line.words(action, Request(verb, dict(values)), context)


@pytest.mark.parametrize(("verb", "values"), CASES)
def test_parsing_the_command_line_gives_the_same_request(verb: str, values: dict[str, object]) -> None:
    parsed = argument_parser.parse(words(verb, values)[1:])
    assert parsed.request.verb == verb
    assert parsed.request.values == values


@settings(max_examples=60)
@given(name=TEXT, reason=TEXT)
def test_any_text_survives_the_command_line(name: str, reason: str) -> None:
    values: dict[str, object] = {"name": name, "reason": reason}
    assert argument_parser.parse(words("claim", values)[1:]).request.values == values


@settings(max_examples=25)
@given(parts=st.lists(TEXT, min_size=1, max_size=4))
def test_a_shell_reads_the_line_as_the_same_words(parts: list[str]) -> None:
    line = command_line.line(parts)
    assert line.isprintable(), "pasting it types no control"
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode().split("\0")[:-1] == parts


def test_command_line_quotes_bytes_that_are_not_utf_8() -> None:
    assert command_line.line(["a\udcffb"]) == "$'a\\xffb'"


def test_the_command_line_names_registry_and_repository(repo: Repo) -> None:
    other = repo.worktree("feat-api")
    action = actions.find("release")
    assert action is not None
    with Context(repo=str(other.path), database=str(repo.path.parent / "other.db")) as context:
        made = command_line.words(action, Request("release", {"name": "feat-api"}), context)
    assert made[:5] == ["imi", "--db", str(repo.path.parent / "other.db"), "--repo", str(repo.path)]
