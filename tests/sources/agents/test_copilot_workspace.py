"""The plain values of Copilot's `workspace.yaml`, whatever else the file contains."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.sources.agents.copilot.reader import read_workspace

TEXT = """\
---
# a comment
id: 0000-11
cwd: /home/dev/a b # where
git_root: "/home/dev/\\u00fc"
name: 'It''s: a name'
empty:
none: null
tilde: ~
list: [a, b]
nested:
  cwd: /not/this
items:
  - one
text: |-
  first
  second
when: 2026-11-18T08:12:51.018Z
last: 7
"""


def test_plain_values_are_strings_and_everything_else_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "workspace.yaml"
    path.write_text(TEXT)
    assert read_workspace(str(path)) == {
        "id": "0000-11",
        "cwd": "/home/dev/a b",
        "git_root": "/home/dev/ü",
        "name": "It's: a name",
        "text": "first\nsecond",
        "when": "2026-11-18T08:12:51.018Z",
        "last": "7",
    }


def test_a_missing_or_torn_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "workspace.yaml"
    assert read_workspace(str(path)) == {}
    path.write_text('id: 1\nname: "torn')
    assert read_workspace(str(path)) == {}


@given(st.text(alphabet=" ab:'\"|>-#\n\t[{&*!~\\\r", max_size=60))
def test_no_text_raises_an_exception(tmp_path: Path, text: str) -> None:
    path = tmp_path / "workspace.yaml"
    path.write_text(text)
    assert all(isinstance(value, str) for value in read_workspace(str(path)).values())
