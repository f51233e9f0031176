"""Secrets are redacted in texts that are shown or stored. # T4, rule 32"""

from __future__ import annotations

import time

import pytest

from imi_monitor.model.redact import printable_lines, redact

SECRET = "s3cr3tValue0123456789abcdefghijkl"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            f"fatal: unable to access 'https://me:{SECRET}@host/x.git/': 403",
            "fatal: unable to access 'https://***@host/x.git/': 403",
        ),
        (f"https://{SECRET}:x-oauth-basic@github.com/a", "https://***@github.com/a"),
        (f"https://{SECRET}@github.com/a", "https://***@github.com/a"),
        (f"https://me@corp.example:{SECRET}@host/a", "https://***@host/a"),
        (f"https://me:pa/ss@{SECRET}@host/a", "https://***@host/a"),
        (f"HTTP://me:{SECRET}@host", "HTTP://***@host"),
        (f"ssh://git:{SECRET}@host/x", "ssh://git:***@host/x"),
        (f"redis://:{SECRET}@host:6379/0", "redis://:***@host:6379/0"),
        (f"amqps://me:{SECRET}@host:5671/%2f", "amqps://me:***@host:5671/%2f"),
        (f"Authorization: Basic {SECRET}", "Authorization: Basic ***"),
        (f"'authorization': 'Bearer {SECRET}'", "'authorization': 'Bearer ***'"),
        (f"https://host/x?access_token={SECRET}&y=1", "https://host/x?access_token=***&y=1"),
        (f"password={SECRET}", "password=***"),
        (f"ghp_{SECRET} and github_pat_{SECRET} and glpat-{SECRET}", "ghp_*** and github_pat_*** and glpat-***"),
        (f"sk-ant-{SECRET}", "sk-***"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA***"),
    ],
)
def test_secrets_are_redacted(text: str, clean: str) -> None:
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:org/repo.git",
        "ssh://git@host:22/a@b",
        "http://localhost:8080/a@b",
        "https://host.example/a:b@c",
        "fatal: bad revision 'feat/token'",
        "error: pathspec 'password.py' did not match",
        "task-force, sk-8, ghp_short",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece", ["://", "https://", "https://a:", "a", "token=", "authorization: ", "gh", "bearer ", "@"]
)
def test_redaction_is_never_slow(piece: str) -> None:
    started = time.perf_counter()
    redact(piece * (65536 // len(piece)))
    assert time.perf_counter() - started < 1.5


def test_printable_lines_have_no_secrets_and_controls() -> None:
    assert printable_lines(f"one\n\x1b[31mhttps://me:{SECRET}@host\xff\n".encode("latin-1")) == [
        "one",
        "\\x1b[31mhttps://***@host\\xff",
    ]
