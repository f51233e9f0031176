"""Our hooks in a settings file of an agent, as text: put in, found, and taken out.

The files of Claude, Codex and Gemini have the same form: `hooks` holds lists by event, a list holds groups, a group holds
handlers. Ours stand in groups of their own, behind those of the user, so that nobody's place changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from imi_monitor.actions.hooks import jsonc_edit
from imi_monitor.actions.hooks.jsonc_edit import JsonNode, JsonStyle, parse
from imi_monitor.model.errors import Refused

MARK: Final = "/imi/hooks/imi-hook.sh'"  # in the command of each handler of ours
EMPTY: Final = "{}\n"

HookGroup = dict[str, object]


class AddedHooks:
    """The text with our hooks in it, and what must be known to take them out to the byte."""

    __slots__ = ("insides", "made", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.made: list[str] = []  # `hooks`, or `hooks.EVENT`: containers that are ours altogether
        self.insides: dict[str, str] = {}  # what stood in the empty ones of theirs


def add_hooks(text: str, groups: Mapping[str, HookGroup]) -> AddedHooks:
    """`groups` by event; the text must be free of ours."""
    done = AddedHooks(text)
    root = parse(text)
    style = JsonStyle(text, root)
    hooks = _container(root, "hooks", "object")
    if hooks is None:
        _remember(done, "", root)
        done.text = jsonc_edit.append(
            text, root, "hooks", {event: [group] for event, group in groups.items()}, 0, style
        )
        done.made += ["hooks", *(f"hooks.{event}" for event in groups)]
        return done
    for event, group in groups.items():
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
    """The commands of ours that are there, by event; NotJson and Refused when the text is not what it should be."""
    hooks = _container(parse(text), "hooks", "object")
    found: dict[str, list[str]] = {}
    for event, groups in zip(hooks.keys, hooks.items, strict=True) if hooks is not None else ():
        commands = [
            command
            for group in groups.items
            for handler in _handlers(group)
            if (command := handler.text_of("command")) is not None and MARK in command
        ]
        if commands and event.value is not None:
            found.setdefault(event.value, []).extend(commands)
    return found


def remove_hooks(text: str, made: Sequence[str] | None, insides: Mapping[str, str]) -> str:
    """Without anything of ours. `made`: the containers that we brought; None: not known, the emptied ones are taken as ours."""
    touched: list[str] = []
    while (step := _next_of_ours(text)) is not None:
        text, event = step
        touched.append(f"hooks.{event}")
    for name in (*dict.fromkeys(touched), "hooks"):
        if touched:
            text = _close_emptied(text, name, made, insides)
    return text


def _next_of_ours(text: str) -> tuple[str, str] | None:
    """The text without one handler of ours, or without its whole group when that holds nothing else."""
    hooks = _container(parse(text), "hooks", "object")
    if hooks is None:
        return None
    for key, groups in zip(hooks.keys, hooks.items, strict=True):
        for number, group in enumerate(groups.items):
            handlers = _handlers(group)
            ours = [index for index, handler in enumerate(handlers) if MARK in (handler.text_of("command") or "")]
            if not ours:
                continue
            if len(ours) == len(handlers):
                return jsonc_edit.remove(text, groups, number), key.value or ""
            inner = group.get("hooks")
            assert inner is not None  # it has handlers
            return jsonc_edit.remove(text, inner, ours[0]), key.value or ""
    return None


def _close_emptied(text: str, name: str, made: Sequence[str] | None, insides: Mapping[str, str]) -> str:
    """An emptied container goes if it came with us, else it gets back the blanks that stood in it."""
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
