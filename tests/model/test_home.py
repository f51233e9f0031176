"""Labels of homes and the identity of repositories across them."""

from __future__ import annotations

import pytest

from imi_monitor.model import home
from imi_monitor.model.home import HomeDescription


def described(ident: str, host: str, user: str = "ada") -> HomeDescription:
    moment = "2026-11-19T12:00:00.000000+00:00"
    return HomeDescription(ident, host, user, "0.1.0", home.PROTOCOL, moment, moment)


def test_a_host_with_one_home_is_its_label() -> None:
    assert home.labels([described("aaaa1", "box"), described("bbbb1", "laptop")]) == {"aaaa1": "box", "bbbb1": "laptop"}


def test_two_users_of_one_machine_are_told_apart_by_their_names() -> None:
    assert home.labels([described("aaaa1", "box", "ada"), described("bbbb1", "box", "bob")]) == {
        "aaaa1": "ada@box",
        "bbbb1": "bob@box",
    }


def test_labels_that_differ_in_case_only_count_as_alike() -> None:
    found = home.labels([described("aaaa1", "Box"), described("bbbb1", "box")])
    assert found == {"aaaa1": "Box~aaaa", "bbbb1": "box~bbbb"}


def test_ids_with_one_beginning_get_longer_marks_and_a_third_home_changes_no_mark() -> None:
    two = [described("aaaa1", "box"), described("aaaa2", "box")]
    assert home.labels(two) == {"aaaa1": "box~aaaa1", "aaaa2": "box~aaaa2"}
    assert home.labels([described("0000", "box"), *two])["aaaa2"] == "box~aaaa2"


def test_a_typed_word_finds_the_label_else_every_home_of_that_host() -> None:
    homes = [described("aaaa1", "box", "ada"), described("bbbb1", "box", "bob"), described("cccc1", "laptop")]
    named = home.labels(homes)
    assert home.find_homes("bob@box", named, homes) == ["bbbb1"]
    assert home.find_homes("BOX", named, homes) == ["aaaa1", "bbbb1"]
    assert home.find_homes("cccc1", named, homes) == ["cccc1"]
    assert home.find_homes("bo", named, homes) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Acme/App.git",
        "git@github.com:acme/app",
        "ssh://git@github.com:22/acme/app.git/",
        "https://user:secret@github.com/acme/app",
    ],
)
def test_one_repository_has_one_identity_whatever_form_its_remote_has(url: str) -> None:
    assert home.repository_identity(url, "id", "app@work") == "github.com/acme/app"


@pytest.mark.parametrize("url", ["", "/srv/git/app.git", "file:///srv/git/app.git", "../app"])
def test_a_repository_without_a_remote_on_a_server_is_shared_with_no_home(url: str) -> None:
    assert home.repository_identity(url, "id", "app") == "id/app"


def test_a_host_name_keeps_only_the_characters_of_host_names() -> None:
    assert home.plain_host("build-1.example") == "build-1.example"
    assert home.plain_host("b\x1b[31mox\u202e") == "b--31mox"
    assert home.plain_host("") == "host"
