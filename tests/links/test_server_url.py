"""Addresses of RabbitMQ and PostgreSQL: what is taken, what is refused, and that no error names a password."""

from __future__ import annotations

import pytest

from imi_monitor.links import server_url
from imi_monitor.model.errors import UsageError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://127.0.0.1", "127.0.0.1:5672"),
        ("amqp://u:p%40@localhost:99/vhost", "localhost:99"),
        ("amqps://far.example", "far.example:5671"),
        ("postgresql://u@[::1]/db", "::1:5432"),
        ("postgresql://u@/db?host=/run/pg", "/run/pg"),
        ("postgresql:///db", "localhost:5432"),
        ("postgresql://far.example/db?sslmode=verify-full", "far.example:5432"),
    ],
)
def test_addresses_that_stay_on_this_machine_or_are_encrypted_are_taken(url: str, shown: str) -> None:
    parse = server_url.parse_amqp if url.startswith("amqp") else server_url.parse_postgres
    assert parse(url).shown == shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://h", "does not begin with one of"),
        ("amqp", "does not begin with one of"),
        ("amqp://", "names no host"),
        ("amqp://h:port", "is not an address"),
        ("amqp://h:99999", "is not an address"),
        ("amqp://[::1", "is not an address"),
        ("amqp://u:hunter2@far.example", "is not encrypted and verified: use amqps://"),
        ("postgresql://u:hunter2@far.example/db", "is not encrypted and verified: use ?sslmode=verify-full"),
        ("postgresql://u:hunter2@far.example/db?sslmode=require", "is not encrypted"),
    ],
)
def test_others_are_refused_in_one_sentence_without_the_password(url: str, says: str) -> None:
    parse = server_url.parse_postgres if url.startswith("postgres") else server_url.parse_amqp
    with pytest.raises(UsageError, match=says.replace("?", r"\?")) as caught:
        parse(url)
    assert "hunter2" not in str(caught.value)
    if "encrypted" in says:
        assert parse(url, insecure=True).shown.startswith("far.example")
