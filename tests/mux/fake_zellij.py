"""`zellij` as far as imi talks to it: each version knows its own words, and refuses all others as the real one does.

FAKE_ZELLIJ_VERSION is which one it is, FAKE_ZELLIJ a file with its tabs and panes and everything it was told. A test starts
it several times: what it imports costs more than what it does.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    State = dict[str, Any]

EVER = (0, 30, 0)
# action -> since when, its flags (with how many values, and since when), how many words of its own
ACTIONS: dict[str, tuple[tuple[int, ...], dict[str, tuple[int, tuple[int, ...]]], int]] = {
    "new-pane": (
        EVER,
        {
            "--cwd": (1, EVER),
            "--name": (1, EVER),
            "--floating": (0, EVER),
            "--close-on-exit": (0, EVER),
            "--direction": (1, EVER),
            "--no-focus": (0, (0, 45, 0)),
        },
        0,
    ),
    "new-tab": (
        EVER,
        {"--cwd": (1, EVER), "--name": (1, EVER), "--layout": (1, EVER), "--no-focus": (0, (0, 45, 0))},
        0,
    ),
    "query-tab-names": (EVER, {}, 0),
    "go-to-tab-name": (EVER, {"--create": (0, EVER)}, 1),
    "list-panes": ((0, 44, 0), {"--all": (0, (0, 44, 0)), "--json": (0, (0, 44, 0))}, 0),
    "go-to-tab-by-id": ((0, 44, 0), {}, 1),
    "focus-pane-id": ((0, 44, 1), {}, 1),
}
COMMANDS = {"new-pane": EVER, "new-tab": (0, 44, 0)}  # which take `-- CMD`, and since when
LAYOUT_ONLY = (0, 38, 0)  # before it, a new tab had a folder only with a layout


def main(words: list[str]) -> int:
    version = tuple(map(int, os.environ["FAKE_ZELLIJ_VERSION"].split(".")))
    if words == ["--version"]:
        print(f"zellij {os.environ['FAKE_ZELLIJ_VERSION']}")
        return 0
    if "ZELLIJ" not in os.environ:
        return refuse("There is no active session!")
    if len(words) < 2 or words[0] != "action":
        return refuse(f"error: Found argument '{words[:1]}' which wasn't expected")
    name, rest = words[1], words[2:]
    if name not in ACTIONS or version < ACTIONS[name][0]:
        return refuse(f"error: The subcommand '{name}' wasn't recognized")
    try:
        flags, own, command = parsed(name, rest, version)
    except ValueError as error:
        return refuse(f"error: {error}")
    if name == "new-tab" and version < LAYOUT_ONLY and "--cwd" in flags and "--layout" not in flags:
        return refuse("error: the following required arguments were not provided: --layout <LAYOUT>")
    with open(os.environ["FAKE_ZELLIJ"]) as file:
        state = json.load(file)
    state["told"].append(words)
    act(state, name, flags, own, command, version)
    with open(os.environ["FAKE_ZELLIJ"], "w") as file:
        json.dump(state, file)
    return 0


def parsed(name: str, words: list[str], version: tuple[int, ...]) -> tuple[dict[str, str], list[str], list[str]]:
    _, known, most = ACTIONS[name]
    flags: dict[str, str] = {}
    own: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            if name not in COMMANDS or version < COMMANDS[name]:
                raise ValueError("Found argument '--' which wasn't expected")
            return flags, own, words
        if word.startswith("-"):
            if word not in known or version < known[word][1]:
                raise ValueError(f"Found argument '{word}' which wasn't expected, or isn't valid in this context")
            flags[word] = words.pop(0) if known[word][0] else ""
            if flags[word].startswith("-"):
                raise ValueError(f"Found argument '{flags[word]}' which wasn't expected")
        else:
            own.append(word)
    if len(own) != most:
        raise ValueError(f"{name} takes {most} words, not {own}")
    return flags, own, []


def act(
    state: State, name: str, flags: dict[str, str], own: list[str], command: list[str], version: tuple[int, ...]
) -> None:
    tabs, panes = state["tabs"], state["panes"]
    here = state["tab"]
    if name == "new-tab":
        here = state["tab"] = 1 + max(tab["id"] for tab in tabs)
        tabs.append({"id": here, "name": flags.get("--name", f"Tab #{here}")})
    if name in ("new-tab", "new-pane"):
        pane = {
            "id": len(panes),
            "is_plugin": False,
            "tab_id": here,
            "pane_cwd": flags.get("--cwd", "/"),
            "exited": False,
        }
        panes.append({**pane, "pane_command": " ".join(command), "title": flags.get("--name", "")})
        state["pane"] = pane["id"]
        if version >= (0, 44, 0):
            print(here if name == "new-tab" else f"terminal_{pane['id']}")
    elif name == "query-tab-names":
        print("\n".join(tab["name"] for tab in tabs))
    elif name == "list-panes":
        print(state.get("answer") or json.dumps(panes))
    elif name == "go-to-tab-name":
        state["tab"] = next((tab["id"] for tab in tabs if tab["name"] == own[0]), here)
    elif name == "go-to-tab-by-id":
        state["tab"] = int(own[0])
    elif name == "focus-pane-id":
        state["pane"] = int(own[0].removeprefix("terminal_"))
        state["tab"] = panes[state["pane"]]["tab_id"]


def refuse(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
