"""The table of keys: complete, without clashes, and remapped by a person's settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor import actions, config
from imi_monitor.model.errors import UsageError
from imi_monitor.ui import commands, preferences
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views import VIEWS
from tests.helpers import Repo, imi


def by_word(**options: object) -> dict[str, commands.Command]:
    return {one.word: one for one in commands.table(**options)}  # type: ignore[arg-type]


def test_the_table_says_of_acts_what_they_say_themselves() -> None:
    """A new act with a key needs a line in `commands.ACTS`: the one that this prints."""
    own = [
        commands.Command(
            one.words[0].replace(" ", "-"), one.key, one.label, one.help, "Acting", "act", changes=one.changes,
            about_one=commands.takes_worktree(one),
        )
        for one in actions.all_actions()
        if one.key
    ]  # fmt: skip
    assert [replace(one, weight=0) for one in commands.ACTS] == own


def test_the_table_says_of_views_what_they_say_themselves() -> None:
    own = [
        commands.Command(
            one.word, one.key_shown, one.label, one.help, "Views", "view", about_one=one.needs_worktree, everywhere=True
        )
        for one in VIEWS
    ]
    assert [replace(one, weight=0) for one in commands.VIEWS] == own


def test_what_has_a_key_can_be_done() -> None:
    table = by_word()
    for own in commands.OWN:
        assert callable(getattr(ImiApp, f"do_{own.word}")), own.word
    assert all(one.help and one.label for one in table.values())


def test_no_two_want_the_same_key() -> None:
    keys = [one.key for one in commands.table() if one.key]
    assert len(keys) == len(set(keys))


def test_read_only_has_nothing_that_changes() -> None:
    assert {"claim", "release", "remove", "add", "review", "undo"} <= by_word().keys()
    assert not {"claim", "release", "remove", "add", "review", "undo"} & by_word(read_only=True).keys()


def test_other_keys() -> None:
    table = by_word(keymap={"remove": "X", "filter": "?", "help": "f1"})
    assert (table["remove"].key, table["filter"].key, table["help"].key) == ("X", "question_mark", "f1")
    assert table["filter"].key_shown == "?"


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({"remove": "c"}, ["'c'", "claim", "remove"]),
        ({"sort": "j"}, ["'j'", "moving about"]),
        ({"remov": "X"}, ["'remov'", "remove"]),
        ({"remove": "/", "filter": "X", "sort": "X"}, ["'X'", "filter", "sort"]),
    ],
)
def test_a_keymap_that_makes_no_sense_is_refused_in_a_sentence(keymap: dict[str, str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        commands.table(keymap)
    assert all(word in caught.value.sentence for word in words), caught.value.sentence


def test_two_may_exchange_their_keys() -> None:
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
        ('[ui.keymap]\nremove = "c"', "claim"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(text: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        preferences.from_settings(settings(text))
    assert word in caught.value.sentence


def test_a_cluster_may_not_turn_keys_round(cluster: Repo) -> None:
    """Its file lies where agents write."""
    (cluster.path.parent / ".iMi" / "config.toml").write_text('[ui.keymap]\nremove = "enter"\n')
    ran = imi("config", cwd=cluster.path)
    assert ran.code == 2 and "ui.keymap" in ran.err


def test_the_settings_are_listed(repo: Repo) -> None:
    assert "ui.theme" in imi("config", cwd=repo.path).out
    assert "--ascii" in imi("help").out
