"""The dashboard's commands: complete, without clashes, and with the keys of the user's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import config
from imi_monitor.model.errors import UsageError
from imi_monitor.model.own_command import OwnCommand
from imi_monitor.ui import command_conditions, commands, preferences
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.handlers.agent_commands import AgentCommands
from imi_monitor.ui.handlers.command_panes import CommandPanes
from imi_monitor.ui.handlers.display_commands import DisplayCommands
from imi_monitor.ui.handlers.list_commands import ListCommands
from imi_monitor.ui.handlers.worktree_commands import WorktreeCommands
from tests.helpers import Repo, imi
from tests.ui import snapshot_builder
from tests.ui.pilot_kit import run_dashboard, toasts


def by_word(**options: object) -> dict[str, commands.Command]:
    return {one.word: one for one in commands.table(**options)}  # type: ignore[arg-type]


def test_every_dashboard_function_has_a_handler() -> None:
    handlers = (ImiApp, AgentCommands, CommandPanes, DisplayCommands, ListCommands, WorktreeCommands)
    for function in commands.DASHBOARD_FUNCTIONS:
        assert any(callable(getattr(handler, f"do_{function.word}", None)) for handler in handlers), function.word


def test_every_command_is_described_and_its_conditions_exist() -> None:
    for command in commands.table():
        assert command.label and command.group and command.help, command.word
        assert command.help[0].islower() and not command.help.endswith("."), command.help
        assert set(command.requires) <= command_conditions.CONDITIONS.keys(), command.word


def test_the_reason_against_a_command() -> None:
    table = by_word()
    free, held = snapshot_builder.tree("feat-a"), snapshot_builder.tree("feat-b", by="claude-1")
    facts = snapshot_builder.facts(free, held)

    def reason(word: str, *more: Any) -> str:
        return command_conditions.reason_against(table[word], *more)

    assert reason("release", None, None) == "no worktree has been read yet"
    assert reason("release", facts, None) == "select a worktree first"
    assert reason("release", facts, free) == "feat-a is not claimed"
    assert reason("release", facts, free, [free, held]) == "", "each of the marked ones says so itself"
    assert reason("release", facts, held) == ""
    assert reason("add", None, None) == reason("add", facts, None) == "", "it needs no worktree"


@pytest.mark.parametrize(
    ("condition", "met", "unmet", "reason"),
    [
        ("folder", {}, {"missing": True}, "feat-a's folder is missing: `imi prune` forgets it"),
        ("claim", {"by": "claude-1"}, {}, "feat-a is not claimed"),
        ("linked", {}, {"is_main": True}, "feat-a is the repository's main worktree"),
        ("pull-request", {"pr": 7}, {}, "feat-a has no known pull request"),
        ("agent", None, {}, "no agent works in feat-a"),
        ("delivery", None, {}, "no file of feat-a waits to be delivered"),
        ("session", {}, None, ""),
    ],
)
def test_each_condition_of_a_worktree_says_what_is_missing(
    condition: str, met: dict[str, Any] | None, unmet: dict[str, Any] | None, reason: str
) -> None:
    for fields, expected in ((met, ""), (unmet, reason)):
        if fields is not None:
            tree = snapshot_builder.tree("feat-a", **fields)
            said = command_conditions.CONDITIONS[condition](snapshot_builder.facts(tree), tree)
            assert said.startswith(expected) and bool(said) == bool(expected)


def test_no_two_commands_have_the_same_default_key() -> None:
    keys = [one.key for one in commands.table() if one.key]
    assert len(keys) == len(set(keys)) and not commands.NAVIGATION_KEYS & set(keys)


def test_a_read_only_dashboard_refuses_each_command_that_changes_something() -> None:
    assert not any(one.refused for one in by_word().values())
    refused = {word for word, one in by_word(read_only=True).items() if one.refused}
    assert {"claim", "release", "remove", "add", "review", "undo", "start"} <= refused
    assert not {"diff", "open", "copy", "filter"} & refused
    for facts in (None, snapshot_builder.facts(snapshot_builder.tree("feat-a"))):
        reason = command_conditions.reason_against(by_word(read_only=True)["claim"], facts, None)
        assert reason == commands.READ_ONLY


def test_the_keymap_gives_other_keys() -> None:
    table = by_word(keymap={"remove": "X", "filter": "?", "help": "f1"})
    assert (table["remove"].key, table["filter"].key, table["help"].key) == ("X", "question_mark", "f1")
    assert table["filter"].key_label == "?"


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({"sort": "j"}, ["'j'", "sort", "navigation"]),
        ({"remov": "X"}, ["'remov'", "remove"]),
        ({"remove": "/", "filter": "X", "sort": "X"}, ["'X'", "filter", "sort"]),
    ],
)
def test_a_keymap_that_contradicts_itself_is_refused_in_a_sentence(keymap: dict[str, str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        commands.table(keymap)
    assert all(word in caught.value.sentence for word in words), caught.value.sentence


def test_a_key_of_the_keymap_wins_over_a_default() -> None:
    table = by_word(keymap={"remove": "c"})
    assert (table["remove"].key, table["claim"].key, table["claim"].displaced_by) == ("c", "", "remove")
    text = commands.displaced_keys_text(table.values())
    assert "Claim" in text and "remove" in text
    assert commands.displaced_keys_text(commands.table()) == ""


def test_a_displaced_default_key_is_reported_once(repo: Repo, tmp_path: Path) -> None:
    chosen = preferences.Preferences(keymap={"remove": "c"}, state_file=str(tmp_path / "layout.json"))
    reported = []

    async def play(app: ImiApp, _pilot: Pilot[Any]) -> None:
        reported.append([text for text in toasts(app) if "Claim" in text and "[ui.keymap]" in text])
        app.layout_file.flush()  # as `q` does

    run_dashboard(repo, play, preferences=chosen)
    run_dashboard(repo, play, preferences=chosen)
    assert [len(texts) for texts in reported] == [1, 0]


def test_own_commands_have_keys_by_the_rules_of_the_keymap() -> None:
    table = by_word(own=[OwnCommand("test", "make test", key="c"), OwnCommand("lint", "make lint")])
    assert (table["command:test"].key, table["claim"].key, table["claim"].displaced_by) == ("c", "", "command:test")
    assert table["command:lint"].key == "" and table["command:lint"].needs_worktree
    assert by_word(own=[OwnCommand("test", "x", key="c")], keymap={"command:test": "f6"})["claim"].key == "c"
    assert by_word(own=[OwnCommand("test", "x")], read_only=True)["command:test"].refused
    for own, keymap in (([("a", "X"), ("b", "X")], {}), ([("a", "X")], {"sort": "X"}), ([("a", "j")], {})):
        with pytest.raises(UsageError) as caught:
            by_word(own=[OwnCommand(name, "x", key=key) for name, key in own], keymap=keymap)
        assert "gives the key" in caught.value.sentence and "command:a" in caught.value.sentence


def test_two_commands_can_exchange_their_keys() -> None:
    table = by_word(keymap={"claim": "R", "release": "c"})
    assert (table["claim"].key, table["release"].key) == ("R", "c")


def settings(text: str) -> config.Settings:
    path = config.paths.config_file()
    config.os.makedirs(config.os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return config.load()


def test_preferences_from_the_config_file() -> None:
    text = '[ui]\ntheme = "light"\nascii = true\nremember = false\n[ui.keymap]\nremove = "X"\n'
    chosen = preferences.from_settings(settings(text), state_file="/x")
    assert (chosen.theme, chosen.ascii_only, chosen.state_file) == ("imi-light", True, "")
    assert chosen.keymap == {"remove": "X"}
    assert preferences.from_settings(settings("[ui]\ntheme = 'nord'\n"), state_file="/x").theme == "nord"
    assert preferences.from_settings(settings(""), state_file="/x").state_file == "/x"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[ui]\ntheme = "pink"', "pink"),
        ('[ui]\ncolour = "x"', "ui.colour"),
        ("[ui]\nkeymap = 3", "ui.keymap"),
        ("[ui.keymap]\nremove = 3", "ui.keymap"),
        ('[ui.keymap]\nremove = "j"', "navigation"),
    ],
)
def test_wrong_ui_settings_are_refused_by_name(text: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        preferences.from_settings(settings(text))
    assert word in caught.value.sentence


def test_a_clusters_settings_cannot_change_keys(cluster: Repo) -> None:
    """Its file lies where agents write."""
    (cluster.path.parent / ".iMi" / "config.toml").write_text('[ui.keymap]\nremove = "enter"\n')
    for words, code in ((["status"], 2), (["config"], 1)):
        ran = imi(*words, cwd=cluster.path)
        assert (ran.code, "ui.keymap is not allowed in" in ran.err) == (code, True), ran


def test_ui_settings_are_listed_by_config(repo: Repo) -> None:
    assert "ui.theme" in imi("config", cwd=repo.path).out
    assert "--ascii" in imi("help").out
