"""imi's server in the text of a settings file: JSON edited in place, and a block at the end of Codex's TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from imi_monitor.actions.hooks import jsonc_edit
from imi_monitor.actions.hooks.jsonc_edit import JsonNode, JsonStyle, parse
from imi_monitor.actions.mcp.agent_servers import NAME
from imi_monitor.model.errors import Refused

EMPTY = "{}\n"
_HEADER = f"[mcp_servers.{NAME}]"


def find_json(text: str, section: str) -> dict[str, object] | None:
    """imi's entry; None if there is none. Refused when the text is no settings file."""
    found = _section(parse(text), section)
    node = found.get(NAME) if found is not None else None
    if node is None:
        return None
    try:
        value = json.loads(text[node.start : node.end])
    except ValueError:
        return {}  # with comments: not as imi wrote it
    return value if isinstance(value, dict) else {}


def add_json(text: str, section: str, entry: Mapping[str, object]) -> tuple[str, list[str], dict[str, str]]:
    """The text with the entry, the containers that were created, and the blanks in the user's empty containers."""
    root = parse(text)
    style = JsonStyle(text, root)
    found = _section(root, section)
    insides = {} if root.items else {"": jsonc_edit.inner_text(text, root)}
    if found is None:
        return jsonc_edit.append(text, root, section, {NAME: dict(entry)}, 0, style), [section], insides
    if not found.items:
        insides[section] = jsonc_edit.inner_text(text, found)
    return jsonc_edit.append(text, found, NAME, dict(entry), 1, style), [], insides


def remove_json(text: str, section: str, made: Sequence[str] | None, insides: Mapping[str, str]) -> str:
    """The text without imi's entry. `made`: the containers that imi created; None: unknown, then an emptied one counts."""
    found = _section(parse(text), section)
    number = _index(found)
    if found is None or number is None:
        return text
    text = jsonc_edit.remove(text, found, number)
    root = parse(text)
    left = root.get(section)
    if left is not None and not left.items:
        if made is None or section in made:
            keys = [key.value for key in root.keys]
            text = jsonc_edit.remove(text, root, keys.index(section))
        elif section in insides:
            text = jsonc_edit.with_inner_text(text, left, insides[section])
    root = parse(text)
    if not root.items and "" in insides and not jsonc_edit.inner_text(text, root).strip():
        text = jsonc_edit.with_inner_text(text, root, insides[""])
    return text


def _index(found: JsonNode | None) -> int | None:
    keys = [key.value for key in found.keys] if found is not None else []
    return keys.index(NAME) if NAME in keys else None


def _section(root: JsonNode, section: str) -> JsonNode | None:
    if root.kind != "object":
        raise Refused("it holds no JSON object", code="not-json")
    found = root.get(section)
    if found is not None and found.kind != "object":
        raise Refused(f"its {section!r} is no object", code="not-json")
    return found


# -- TOML ----------------------------------------------------------------------------------------------------------------


def find_toml(text: str) -> dict[str, object] | None:
    """imi's table; None if there is none. Refused when the text is not TOML."""
    import tomllib

    try:
        servers = tomllib.loads(text).get("mcp_servers", {})
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"it is not TOML: {error}", code="not-toml") from error
    found = servers.get(NAME) if isinstance(servers, dict) else None
    return found if isinstance(found, dict) or found is None else {}


def add_toml(text: str, command: Sequence[str]) -> tuple[str, str]:
    """The text with imi's table at its end, and what was added."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [_HEADER, f"command = {json.dumps(command[0])}", f"args = {json.dumps(list(command[1:]))}"]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    block = gap + newline.join(lines) + newline
    after = text + block
    if find_toml(after) is None:
        raise Refused("its mcp_servers is not a table of tables: add imi by hand", code="not-toml")
    return after, block


def remove_toml(text: str, block: str | None) -> str:
    """The text without imi's table: what was added, or where that was changed, the table with all its lines."""
    if block and text.count(block) == 1:
        return text.replace(block, "")
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        head = line.strip()
        if head.startswith("["):
            inside = head == _HEADER or head.startswith(_HEADER[:-1] + ".")
        if not inside:
            kept.append(line)
    return "".join(kept)
