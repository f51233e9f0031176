"""Secrets are redacted in texts that are shown or stored. # T4, rule 32"""

from __future__ import annotations

import random
import time

import pytest

from bench import redaction
from imi_monitor.model.redact import printable_lines, redact

SECRET = "s3cr3tValue0123456789abcdefghijkl"
PIECES = [
    *(
        "://",
        "https://",
        "https://a:",
        "a",
        "token=",
        "authorization: ",
        "gh",
        "bearer ",
        "@",
        "docker login ",
        "mysql ",
    ),
    *(
        "password for ",
        "cookie: a=",
        "<token>",
        "echo ",
        "eyJa.",
        "\x1b[31m",
        "\x1b]",
        "\\e[",
        "0/1234567890",
        "set -x ",
    ),
]


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
        (f"sk-ant-{SECRET}", "sk-ant-***"),
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


@pytest.mark.parametrize("piece", PIECES)
def test_redaction_is_never_slow(piece: str) -> None:
    started = time.process_time()
    redact(piece * (65536 // len(piece)))
    assert time.process_time() - started < 3


def test_printable_lines_have_no_secrets_and_controls() -> None:
    assert printable_lines(f"one\n\x1b[31mhttps://me:{SECRET}@host\xff\n".encode("latin-1")) == [
        "one",
        "\\x1b[31mhttps://***@host\\xff",
    ]


@pytest.mark.parametrize("vendor", redaction.VENDORS)
def test_tokens_of_every_vendor_are_found(vendor: str) -> None:
    """One of each format here; `make bench ARGS=redaction` measures the share of thousands."""
    random.seed(vendor)
    for format in redaction.VENDORS[vendor]:
        for place in redaction.PLACES:
            token, secret = redaction.make_token(format)
            assert secret not in redact(place.replace("§", token)), place.replace("§", token)


@pytest.mark.parametrize("place", [place for places in redaction.CONTEXTS.values() for place in places])
def test_secrets_are_found_by_their_place(place: str) -> None:
    text = redact(place.replace("§", "correct7Horse"))
    assert "correct7Horse" not in text and "***" in text
    assert redact(text) == text, "what is clean stays as it is"


@pytest.mark.parametrize(
    "text",
    [
        "def login(self, password: str | None = None, token: Token) -> bool:",
        "password = getpass.getpass()",
        'token = os.environ["GITHUB_TOKEN"]',
        "client = Client(password=password, api_key=settings.api_key)",
        "curl -H 'Authorization: Bearer $GITHUB_TOKEN' https://x",
        "mysql -u root -p shop",
        "docker run -p 8080:80 --name key-value-store redis",
        "docker compose -p shop up",
        "tokens: 4096, max_tokens=200, token_count: 12",
        "secrets: inherit",
        "npm_config_user_agent_string_of_this_project",
        "    fix: password: handle an empty one",
        "Sentences about a token: they are not secret.",
        "Password:",
        "api_key: <your key here>",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "key_event.dwControlKeyState, sk-learn-compatible-estimators",
    ],
)
def test_code_and_prose_about_secrets_are_unchanged(text: str) -> None:
    assert redact(text) == text


def test_escape_sequences_hide_no_secret() -> None:
    assert redact(f"\x1b[31mghp_{SECRET}\x1b[0m ok") == "\x1b[31mghp_***\x1b[0m ok"
    assert redact(f"ghp_{SECRET[:9]}\x1b[1m{SECRET[9:]}") == "ghp_***"
    assert redact(f"pass\x1b[1mword=\x1b[0m{SECRET}") == "pass\x1b[1mword=\x1b[0m***"
    assert redact(f'{{"out": "\\u001b[31mghp_{SECRET}\\u001b[0m"}}') == '{"out": "\\u001b[31mghp_***\\u001b[0m"}'
