"""The plain part of TOML is read as `tomllib` reads it; what is not plain is left to that."""

from __future__ import annotations

import random
import tomllib

import pytest

from imi_monitor.fast import plain_toml
from imi_monitor.model.text import safe

PLAIN = """
# settings
auto_claim = true
IMI_DATABASE_PATH = '/x/y z.db'   # a comment

[claims]
ttl_seconds = 600
\tagent = "claude-1 # no comment ü"
[ui.keymap]
remove = "X"
[repositories.app]
count = -0
"""
PIECES = [
    "a",
    "b-1",
    "a.b",
    '"a"',
    " = ",
    "=",
    "1",
    "-7",
    "007",
    "1_000",
    "1.5",
    "true",
    "yes",
    '"x"',
    "'y'",
    '"x\\n"',
    '""',
    "''",
    '"""',
    "'''",
    "[",
    "]",
    "[[",
    "]]",
    ".",
    "#",
    "# c",
    "\n",
    "\n",
    "\n",
    "\t",
    " ",
    "\r\n",
    "{}",
    "[1]",
    "\x00",
    "\x0b",
    "\u2028",
    "ü",
    "\ufeff",
    "inf",
    "2026-01-01",
    ",",
]


def agrees(text: str) -> bool:
    """True if it was plain; fails unless the result is that of `tomllib`."""
    found = plain_toml.parse(text)
    if found is None:
        return False
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AssertionError(f"{text!r} is refused: {error}") from error
    assert found == wanted and repr(found) == repr(wanted), safe(text)
    return True


def test_a_usual_configuration_is_plain() -> None:
    assert agrees(PLAIN) and agrees("")


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\na = 2",
        "[a]\n[a]",
        "[a.b]\n[a]",
        "a = 1\n[a]",
        "[a]\nb = 1\n[a.b]",
        "a.b = 1",
        '"a" = 1',
        "a = [1]",
        "[[a]]",
        "a = 01",
        "a = +1",
        "a = 1.0",
        'a = "\\t"',
        'a = """x"""',
        "a = ''''''",
        "a",
        "= 1",
        "a = ",
        "[a",
        "[]",
        "a = 1\r",
        "a = 'x' y",
        "a = True",
        "a = " + "9" * 30,
        'a = """\nb = 1\n"""',
        "\ufeffa = 1",
        'a = "x\x7f"',
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(text: str) -> None:
    assert not agrees(text)


def test_any_text_is_read_alike() -> None:
    dice = random.Random(11)
    plain = sum(agrees("".join(dice.choices(PIECES, k=dice.randrange(1, 14)))) for _ in range(30_000))
    lines = [
        "[t{n}]",
        "k{n} = {n}",
        "k{n} = 'v' # c",
        'k{n}="w"',
        "# x",
        "",
        "k{m} = true",
        "[t{m}.u]",
        "k{n} = [",
        "[t{m}]",
    ]
    for _ in range(3_000):
        chosen = [dice.choice(lines).format(n=n, m=dice.randrange(6)) for n in range(dice.randrange(1, 9))]
        plain += agrees("\n".join(chosen))
    assert plain > 1_000
