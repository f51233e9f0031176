"""imi's hooks in the text of an agent's settings file: added, found and removed.

The files of Claude, Codex and Gemini have the same form: `hooks` holds lists by event, a list holds groups, a group holds
handlers. imi's handlers are in separate groups behind the user's, so that the user's groups keep their positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from imi_monitor.actions.hooks import jsonc_edit
from imi_monitor.actions.hooks.jsonc_edit import JsonNode, JsonStyle, parse
from imi_monitor.model.errors import Refused

MARKS: Final = (
    "/imi/hooks/imi-hook.sh'",
    "/imi/hooks/imi-edits.sh'",
    "/imi/hooks/imi-answer.sh'",
)  # one is part of the command of each handler of imi
EMPTY: Final = "{}\n"

HookGroup = dict[str, object]


class AddedHooks:
    """The text with imi's hooks, and what is needed to remove them byte for byte."""

    __slots__ = ("insides", "made", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.made: list[str] = []  # containers that imi created: `hooks`, `hooks.EVENT`
        self.insides: dict[str, str] = {}  # the blanks in the user's empty containers


def add_hooks(text: str, groups: Mapping[str, Sequence[HookGroup]]) -> AddedHooks:
    """Add imi's groups, by event, to a text that has none of them."""
    done = AddedHooks(text)
    root = parse(text)
    style = JsonStyle(text, root)
    hooks = _container(root, "hooks", "object")
    if hooks is None:
        _remember(done, "", root)
        done.text = jsonc_edit.append(
            text, root, "hooks", {event: list(added) for event, added in groups.items()}, 0, style
        )
        done.made += ["hooks", *(f"hooks.{event}" for event in groups)]
        return done
    for event, added in groups.items():
        for group in added:
            _one_event(done, event, group, style)
    return done


def _one_event(done: AddedHooks, event: str, group: HookGroup, style: JsonStyle) -> None:
    hooks = _hooks_of(parse(done.text))
    found = _container(hooks, event, "array")
    if found is None:
        _remember(done, "hooks", hooks)
        done.text = jsonc_edit.append(done.text, hooks, event, [group], 1, style)
        done.made.append(f"hooks.{event}")
        return
    _remember(done, f"hooks.{event}", found)
    done.text = jsonc_edit.append(done.text, found, None, group, 2, style)


def _remember(done: AddedHooks, name: str, container: JsonNode) -> None:
    if not container.items and name not in done.made:
        done.insides.setdefault(name, jsonc_edit.inner_text(done.text, container))


def find_hooks(text: str) -> dict[str, list[str]]:
    """imi's commands in the text, by event; NotJson or Refused when the text is not a settings file."""
    hooks = _container(parse(text), "hooks", "object")
    found: dict[str, list[str]] = {}
    for event, groups in zip(hooks.keys, hooks.items, strict=True) if hooks is not None else ():
        commands = [
            command
            for group in groups.items
            for handler in _handlers(group)
            if (command := handler.text_of("command")) is not None and _is_ours(command)
        ]
        if commands and event.value is not None:
            found.setdefault(event.value, []).extend(commands)
    return found


def _is_ours(command: str) -> bool:
    return any(mark in command for mark in MARKS)


def remove_hooks(text: str, made: Sequence[str] | None, insides: Mapping[str, str]) -> str:
    """The text without imi's hooks. `made`: the containers that imi created; None: unknown, then every emptied one counts."""
    touched: list[str] = []
    while (step := _remove_next(text)) is not None:
        text, event = step
        touched.append(f"hooks.{event}")
    for name in (*dict.fromkeys(touched), "hooks"):
        if touched:
            text = _clean_up_emptied(text, name, made, insides)
    return text


def _remove_next(text: str) -> tuple[str, str] | None:
    """Remove one handler of imi, or its group when it holds nothing else: (text, event), or None when there is none."""
    hooks = _container(parse(text), "hooks", "object")
    if hooks is None:
        return None
    for key, groups in zip(hooks.keys, hooks.items, strict=True):
        for number, group in enumerate(groups.items):
            handlers = _handlers(group)
            ours = [index for index, handler in enumerate(handlers) if _is_ours(handler.text_of("command") or "")]
            if not ours:
                continue
            if len(ours) == len(handlers):
                return jsonc_edit.remove(text, groups, number), key.value or ""
            inner = group.get("hooks")
            assert inner is not None  # it has handlers
            return jsonc_edit.remove(text, inner, ours[0]), key.value or ""
    return None


def _clean_up_emptied(text: str, name: str, made: Sequence[str] | None, insides: Mapping[str, str]) -> str:
    """Remove an emptied container that imi created; restore the blanks in one that the user had."""
    root = parse(text)
    parent, _, key = name.rpartition(".")
    holder = root if not parent else root.get(parent)
    found = holder.get(key) if holder is not None else None
    if holder is None or found is None or found.items:
        return text
    bare = not jsonc_edit.inner_text(text, found).strip()
    if bare and (name in made if made is not None else True):
        at = max(index for index, known in enumerate(holder.keys) if known.value == key)
        text = jsonc_edit.remove(text, holder, at)
        return _with_blanks(text, parent, insides)
    return _with_blanks(text, name, insides)


def _with_blanks(text: str, name: str, insides: Mapping[str, str]) -> str:
    root = parse(text)
    node = root if not name else root.get("hooks") if name == "hooks" else _hooks_of(root).get(name.partition(".")[2])
    if node is None or node.items or name not in insides:
        return text
    now, then = jsonc_edit.inner_text(text, node), insides[name]
    return jsonc_edit.with_inner_text(text, node, then) if now.strip() == then.strip() else text


def _handlers(group: JsonNode) -> list[JsonNode]:
    inner = group.get("hooks")
    return inner.items if inner is not None and inner.kind == "array" else []


def _hooks_of(root: JsonNode) -> JsonNode:
    found = _container(root, "hooks", "object")
    if found is None:
        raise Refused("it has no hooks", code="not-json")
    return found


def _container(holder: JsonNode, key: str, kind: str) -> JsonNode | None:
    if holder.kind != "object":
        raise Refused("it holds no JSON object", code="not-json")
    found = holder.get(key)
    if found is not None and found.kind != kind:
        raise Refused(f"its {key!r} is no {kind}", code="not-json")
    return found
