"""Names and plain values; whatever else YAML may hold is left out and harms nobody."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.sources.agents.copilot import flat_yaml

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
broken: "no end
not a line
last: 7
"""


def test_what_is_plain_is_read() -> None:
    assert flat_yaml.read(TEXT) == {
        "id": "0000-11", "cwd": "/home/dev/a b", "git_root": "/home/dev/ü", "name": "It's: a name",
        "text": "first\nsecond", "when": "2026-11-18T08:12:51.018Z", "last": "7",
    }  # fmt: skip


@settings(deadline=None)
@given(st.text(alphabet=" ab:'\"|>-#\n\t[{&*!~\\\r", max_size=60))
def test_nothing_breaks_it(text: str) -> None:
    found = flat_yaml.read(text)
    assert all(isinstance(value, str) for value in found.values())
