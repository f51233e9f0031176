"""Addresses of Redis: all forms, the rule about encryption, and no secret in any error."""

from __future__ import annotations

import pytest

from imi_monitor.links import redis_url
from imi_monitor.model.errors import UsageError


@pytest.mark.parametrize(
    ("url", "form", "places", "service", "database", "tls"),
    [
        ("redis://localhost", "single", (("localhost", 6379),), "", 0, False),
        ("valkey://127.0.0.1:7000/3", "single", (("127.0.0.1", 7000),), "", 3, False),
        ("redis://127.0.0.1?db=4", "single", (("127.0.0.1", 6379),), "", 4, False),
        ("rediss://u:p%40@db.example/1", "single", (("db.example", 6379),), "", 1, True),
        ("valkeys://[fd00::1]:7000", "single", (("fd00::1", 7000),), "", 0, True),
        ("unix:///run/redis.sock?db=2", "single", (), "", 2, False),
        ("redis+sentinel://localhost,127.0.0.2:26380/main/2", "sentinel",
         (("localhost", 26379), ("127.0.0.2", 26380)), "main", 2, False),
        ("rediss+cluster://c.example:7001", "cluster", (("c.example", 7001),), "", 0, True),
    ],
)  # fmt: skip
def test_every_form_of_an_address(
    url: str, form: str, places: tuple[tuple[str, int], ...], service: str, database: int, tls: bool
) -> None:
    found = redis_url.parse(url)
    assert (found.form, found.places, found.service, found.database, found.tls) == (
        form,
        places,
        service,
        database,
        tls,
    )


def test_user_and_password_are_unquoted_and_never_shown() -> None:
    found = redis_url.parse("redis://ada:p%40ss%2Fword@127.0.0.1:6380/0")
    assert (found.user, found.password, found.shown) == ("ada", "p@ss/word", "127.0.0.1:6380")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://ada:hunter2@h", "does not begin with"),
        ("hunter2", "does not begin with"),
        ("redis://ada:hunter2@", "names no host"),
        ("redis://ada:hunter2@h:port", "port that is no number"),
        ("rediss://ada:hunter2@h/x", "database that is no number"),
        ("rediss://ada:hunter2@h/1/2", "more after its host"),
        ("rediss://ada:hunter2@h?retry=10", "has the option 'retry'"),
        ("redis+sentinel://ada:hunter2@localhost", "names no service"),
        ("redis://ada:hunter2@db.example", "is not encrypted"),
        ("rediss://ada:hunter2@db.example?ssl_cert_reqs=none", "does not verify the server"),
    ],
)
def test_a_wrong_address_is_one_sentence_without_its_password(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"^servers\.redis_url") as caught:
        redis_url.parse(url)
    assert says in caught.value.sentence and "hunter2" not in caught.value.sentence


def test_a_private_network_is_allowed_when_the_user_says_so() -> None:
    assert redis_url.parse("redis://db.example", insecure=True).places == (("db.example", 6379),)


@pytest.mark.parametrize(
    ("url", "has"),
    [
        ("redis://:hunter2@h", True),
        ("redis+sentinel://u:hunter2@a,b/x", True),
        ("redis://u@h:6379", False),
        ("redis://h:6379/a:b@c", False),
    ],
)
def test_a_password_in_an_address_is_found(url: str, has: bool) -> None:
    assert redis_url.has_password(url) is has
