"""The lean reader answers as `json.loads`."""

from __future__ import annotations

import json

import pytest

from imi_monitor.fast import json_reader


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "null",
        ' \n{"a": [1, -2.5e3, true, null, "\\u00fc\\n"], "b": {"c": {}}} ',
        '"x"',
        "0",
        "[[], [1]]",
        '{"a": 1, "a": 2}',
        '"\\ud83d\\ude00 ü"',
        "Infinity",
        "123456789012345678901234567890",
    ],
)
def test_valid_json_has_the_same_value(text: str) -> None:
    assert json_reader.loads(text) == json.loads(text)
    assert type(json_reader.loads(text)) is type(json.loads(text))


@pytest.mark.parametrize(
    "text", ["", " ", "{", "{} {}", "[1,]", "{'a': 1}", '{"a"}', '"\n"', "nul", "1 2", "[1", '{"a":}', "\x00"]
)
def test_anything_else_is_a_value_error(text: str) -> None:
    for loads in (json.loads, json_reader.loads):
        with pytest.raises(ValueError):
            loads(text)
