"""Adding hooks to settings texts of any layout and removing them leaves every other byte unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.actions.hooks import hook_entries, jsonc_edit
from imi_monitor.model.errors import Refused

OURS = "test ! -r '/s/imi/hooks/imi-hook.sh' || exec /bin/sh '/s/imi/hooks/imi-hook.sh' claude"
TOLD = OURS.replace("imi-hook", "imi-edits")
GROUPS: dict[str, list[hook_entries.HookGroup]] = {
    "Stop": [{"hooks": [{"type": "command", "command": OURS, "timeout": 5}]}],
    "PreToolUse": [
        {"matcher": "*", "hooks": [{"type": "command", "command": OURS, "timeout": 5}]},
        {"matcher": "Edit", "hooks": [{"type": "command", "command": TOLD, "timeout": 5}]},
    ],
}
THEIRS = '{"hooks": [{"type": "command", "command": "say hi"}]}'

TEXTS = {
    "empty object": "{}",
    "empty with a line": "{\n}\n",
    "blanks inside": "{  }\n\n",
    "one line": '{"model": "x", "n": 1.50}',
    "one line, no blanks": '{"model":"x","hooks":{"Stop":[{"hooks":[]}]}}',
    "two spaces": '{\n  "model": "x",\n  "b": [1,2,  3]\n}\n',
    "tabs": '{\n\t"model": "x",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}',
    "four and CRLF": '{\r\n    "model": "x",\r\n    "hooks": {\r\n    }\r\n}\r\n',
    "their hooks": '{\n  "hooks": {\n    "Stop": [\n      ' + THEIRS + '\n    ],\n    "Other": []\n  },\n  "z": 1\n}\n',
    "comments": '// top\n{\n  "a": 1, // one\n  /* two */ "hooks": {\n    "Stop": [\n      '
    + THEIRS
    + " // loud\n      // last\n    ]\n  } // end\n} // done\n",
    "trailing commas": '{\n  "a": 1,\n  "hooks": {\n    "Stop": [\n      ' + THEIRS + ",\n    ],\n  },\n}\n",
    "comment in an empty one": '{\n  "hooks": {\n    // nothing yet\n  }\n}\n',
    "comment in an empty list": '{"hooks": {"Stop": [ /* none */ ]}}',
    "unicode and a mark": '\ufeff{\n  "ü": "\\u00fc 日本 \\" // no comment"\n}\n',
    "the same key twice": '{"hooks": 1, "hooks": {}}',
    "ours as text": '{"note": "test ! -r \'/s/imi/hooks/imi-hook.sh\'"}',
}


def plain(text: str) -> Any:
    """The text's value as a program without comments sees it."""
    node = jsonc_edit.parse(text)

    def value(one: jsonc_edit.JsonNode) -> Any:
        if one.kind == "object":
            return {key.value: value(item) for key, item in zip(one.keys, one.items, strict=True)}
        return [value(item) for item in one.items] if one.kind == "array" else json.loads(text[one.start : one.end])

    return value(node)


@pytest.mark.parametrize("name", TEXTS)
def test_adding_and_removing_hooks_restores_every_byte(name: str) -> None:
    before = TEXTS[name]
    done = hook_entries.add_hooks(before, GROUPS)
    assert hook_entries.find_hooks(done.text) == {"Stop": [OURS], "PreToolUse": [OURS, TOLD]}
    with_ours, without = plain(done.text), plain(before)
    assert {key: with_ours[key] for key in without if key != "hooks"} == {
        k: v for k, v in without.items() if k != "hooks"
    }
    assert list(with_ours)[: len(without)] == list(without), "the order stays"
    for event, groups in (without.get("hooks") or {}).items():
        assert with_ours["hooks"][event][: len(groups)] == groups, "theirs stay first, in order"
    assert hook_entries.remove_hooks(done.text, done.made, done.insides) == before


@pytest.mark.parametrize("name", TEXTS)
def test_adding_hooks_changes_nothing_else(name: str) -> None:
    """Our text is only ever put between two bytes: take some characters away, and the old text is there."""
    before, after = TEXTS[name], hook_entries.add_hooks(TEXTS[name], GROUPS).text
    rest = iter(after)
    # blanks of an empty container may be taken apart; everything else stands there in its order
    assert all(char in rest for char in before if not char.isspace())


def test_a_comment_stays_with_its_value() -> None:
    assert f"{THEIRS}, // loud\n      // last\n      {{\n" in hook_entries.add_hooks(TEXTS["comments"], GROUPS).text


def test_later_edits_stay_when_hooks_are_removed() -> None:
    for name, before in TEXTS.items():
        done = hook_entries.add_hooks(before, GROUPS)
        if '"a": 1' not in before:
            continue
        edited = done.text.replace('"a": 1', '"a": [2, {"b": null}] /* mine */')
        wanted = before.replace('"a": 1', '"a": [2, {"b": null}] /* mine */')
        assert hook_entries.remove_hooks(edited, done.made, done.insides) == wanted, name


def test_entries_behind_the_hooks_stay() -> None:
    done = hook_entries.add_hooks(TEXTS["two spaces"], GROUPS)
    at = done.text.index('"PreToolUse"')
    theirs = f'"Mine": [\n      {THEIRS}\n    ],\n    '
    edited = done.text[:at] + theirs + done.text[at:]
    left = plain(hook_entries.remove_hooks(edited, done.made, done.insides))
    assert left == {"model": "x", "b": [1, 2, 3], "hooks": {"Mine": [json.loads(THEIRS)]}}


def test_a_reformatted_file_loses_the_hooks_only() -> None:
    """An agent that saves its settings writes them anew, in its own layout."""
    done = hook_entries.add_hooks(TEXTS["their hooks"], GROUPS)
    for indent in (None, 1, 4, "\t"):
        rewritten = json.dumps(json.loads(done.text), indent=indent)
        left = hook_entries.remove_hooks(rewritten, done.made, done.insides)
        assert json.loads(left) == json.loads(TEXTS["their hooks"])


def test_a_hook_in_a_group_of_the_user_is_removed_alone() -> None:
    text = json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"command": "a"}, {"command": OURS}, {"command": "b"}]}]}}, indent=2
    )
    assert json.loads(hook_entries.remove_hooks(text, None, {})) == {
        "hooks": {"Stop": [{"hooks": [{"command": "a"}, {"command": "b"}]}]}
    }


def test_without_a_record_emptied_containers_are_removed() -> None:
    text = '{"a": 1, "hooks": {"Stop": [{"hooks": [{"command": "' + OURS + '"}]}], "Other": []}}'
    assert hook_entries.remove_hooks(text, None, {}) == '{"a": 1, "hooks": {"Other": []}}'
    assert hook_entries.remove_hooks(hook_entries.add_hooks('{"a": 1}', GROUPS).text, None, {}) == '{"a": 1}'
    assert hook_entries.remove_hooks('{"hooks": {}}', None, {}) == '{"hooks": {}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "[]",
        "1",
        '{"a" 1}',
        '{"a": }',
        '{"a": 1 "b": 2}',
        "{",
        '{"a": [1, 2}',
        '{"a": "x}',
        '{"a": tru}',
        "{} {}",
        "{'a': 1}",
        '{"a": 1,, "b": 2}',
        "{,}",
        '{"a": 1} /* open',
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"hooks": null}',
        "[" * 5000,
        '{"a": "\\x"}',
        '{"a": NaNa}',
    ],
)
def test_text_that_is_no_settings_file_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(Refused) as refused:
        hook_entries.add_hooks(text, GROUPS)
    assert refused.value.sentence and "\n" not in refused.value.sentence


_BLANKS = st.text(" \n\t", max_size=3)
_SCALAR = st.sampled_from(["1", "-2.50e3", "true", "null", '"x"', '"\\" // \\u00fc"', '"日本"'])


@st.composite
def _containers(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    def blank() -> str:
        return draw(_BLANKS) + draw(st.sampled_from(["", "", "/* c */", "// c\n"])) + draw(_BLANKS)

    parts = draw(st.lists(inner, max_size=3))
    comma = "," if parts and draw(st.booleans()) else ""
    if draw(st.booleans()):
        return "[" + ",".join(blank() + part + blank() for part in parts) + comma + blank() + "]"
    keys = [f'"k{number}"' for number in range(len(parts))]
    body = ",".join(f"{blank()}{key}{blank()}:{blank()}{part}{blank()}" for key, part in zip(keys, parts, strict=True))
    return "{" + body + comma + blank() + "}"


_VALUE = st.recursive(_SCALAR, lambda inner: _containers(inner), max_leaves=6)


@st.composite
def _settings_texts(draw: st.DrawFn) -> str:
    def blank() -> str:
        return draw(_BLANKS) + draw(st.sampled_from(["", "", "/* c */", "// c\n"])) + draw(_BLANKS)

    def listed(opening: str, parts: list[str], closing: str) -> str:
        comma = "," if parts and draw(st.booleans()) else ""
        return opening + ",".join(blank() + part + blank() for part in parts) + comma + blank() + closing

    members = [f'"m{number}":{draw(_BLANKS)}{draw(_VALUE)}' for number in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        events = [
            f'"{event}":{blank()}{listed("[", [THEIRS] * draw(st.integers(0, 2)), "]")}'
            for event in draw(st.lists(st.sampled_from(["Stop", "PreToolUse", "Other"]), unique=True))
        ]
        members.insert(draw(st.integers(0, len(members))), f'"hooks":{blank()}{listed("{", events, "}")}')
    return blank() + listed("{", members, "}") + blank()


@settings(max_examples=500)
@given(_settings_texts())
def test_any_layout_is_restored_to_the_byte(text: str) -> None:
    done = hook_entries.add_hooks(text, GROUPS)
    assert hook_entries.find_hooks(done.text) == {"Stop": [OURS], "PreToolUse": [OURS, TOLD]}
    assert hook_entries.remove_hooks(done.text, done.made, done.insides) == text


@settings(max_examples=300)
@given(st.text('{}[]",:/*\\ \nabhooks1', max_size=40))
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        node = jsonc_edit.parse(text)
    except jsonc_edit.NotJson:
        return
    assert 0 <= node.start < node.end <= len(text)
