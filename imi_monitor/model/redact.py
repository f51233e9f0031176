"""Redacts secrets in text: passwords, tokens of known formats, keys, values of settings named after a secret.

git repeats a URL that it cannot reach, agents repeat what they read, and both reach screens, logs and events. A doubtful
match is redacted, unless it is code or a placeholder. `re` is imported only when a text may hold a secret; the hot commands
never get that far.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

MASK = "***"
_SHORTEST = 16  # characters of the shortest token with a prefix
_UNBROKEN = 24  # letters and digits without a sign between them that no words have
_DISCORD = 58
_ANY_CASE = "(?i)"
# An escape sequence, raw or as programs write it: \\x1b[31m, \\u001b[0m, \\e[1m
_ESCAPES = (
    r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e)"
    r"(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\|(?=\x1b))|[@-Z\\^_])"
)
_patterns: dict[str, re.Pattern[str]] = {}


def redact(text: str) -> str:
    """Return `text` with every recognised secret replaced by ***."""
    if "\x1b" in text or ("\\" in text and "[" in text):
        return _redact_coloured(text)
    found = _merged(_secrets(text))
    return _masked(text, found) if found else text


def _redact_coloured(text: str) -> str:
    """Secrets are looked for as if the escape sequences were not there, raw or as text; those inside a secret go with it."""
    escapes = _pattern(_ESCAPES)
    places: list[int] = []
    end = 0
    for match in escapes.finditer(text):
        places += range(end, match.start())
        end = match.end()
    places += range(end, len(text))
    if len(places) == len(text):
        found = _merged(_secrets(text))
    else:
        plain = "".join([text[place] for place in places])
        found = [(places[start], places[stop - 1] + 1) for start, stop in _merged(_secrets(plain)) if stop > start]
    return _masked(text, found) if found else text


def _masked(text: str, found: list[tuple[int, int]]) -> str:
    parts, end = [], 0
    for start, stop in found:
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


def _merged(found: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """The places in order, overlapping ones joined."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """The places of everything that is taken for a secret."""
    folded = text.casefold()
    plain = folded if text.isascii() else None
    by_sign = _shapes()
    shapes = {shape for sign in [sign for sign in by_sign if sign in folded] for shape in by_sign[sign]}
    for shape, judgement in shapes:
        low, exact = _pairs.get(shape) or _compile_pair(shape)
        for found in exact.finditer(text) if low is None or plain is None else low.finditer(plain):
            match = found if found.re is exact else exact.match(text, found.start())
            if match is not None and (not judgement or _judge(match, judgement)):
                yield match.span("s")
    longest = max(map(len, text.split()), default=0)
    if longest >= _SHORTEST:
        yield from _prefixed(text)
    if longest >= _DISCORD:
        from imi_monitor.model.secret_shapes import DISCORD

        yield from (match.span("s") for match in _pattern(DISCORD).finditer(text))


def _compile_pair(shape: str) -> tuple[re.Pattern[str] | None, re.Pattern[str]]:
    """The shape for folded text, if its case does not count, and the shape itself. The first takes a third of the time."""
    low = _pattern(shape.removeprefix(_ANY_CASE)) if shape.startswith(_ANY_CASE) else None
    pair = _pairs[shape] = low, _pattern(shape)
    return pair


_pairs: dict[str, tuple[re.Pattern[str] | None, re.Pattern[str]]] = {}


def _prefixed(text: str) -> Iterator[tuple[int, int]]:
    for match in _pattern(_prefix_pattern()).finditer(text):
        if _is_token(*match.group("p", "s")):
            yield match.span("s")


def _is_token(prefix: str, rest: str) -> bool:
    """Whether what follows a prefix is long enough, and random where ordinary words begin with the prefix."""
    from imi_monitor.model.secret_shapes import PREFIXES, WORDLIKE

    if prefix in PREFIXES:
        return len(rest) >= PREFIXES[prefix]
    if len(rest) < WORDLIKE[prefix]:
        return False
    from imi_monitor.model.secret_judgement import is_random

    first = _pattern(r"[.:/]").split(rest, 1)[0]
    return (len(first) >= _UNBROKEN and first.isalnum()) or is_random(first)


def _prefix_pattern() -> str:
    """All prefixes, those of one first letter together, so that a word is compared with few of them."""
    from imi_monitor.model.secret_shapes import PREFIXES, WORDLIKE

    if "prefixes" not in _built:
        import re

        groups: dict[str, list[str]] = {}
        for prefix in sorted((*PREFIXES, *WORDLIKE), key=len, reverse=True):
            groups.setdefault(prefix[0], []).append(re.escape(prefix[1:]))
        starts = "|".join(f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in groups.items())
        before = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
        _built["prefixes"] = rf"{before}(?P<p>{starts})(?P<s>[A-Za-z0-9_\-+/=.~:]{{2,2048}})"
    return _built["prefixes"]


_built: dict[str, str] = {}


_by_sign: dict[str, list[tuple[str, str]]] = {}


def _shapes() -> dict[str, list[tuple[str, str]]]:
    """The shapes by sign, so that a sign that several of them share is looked for once."""
    if not _by_sign:
        from imi_monitor.model.secret_shapes import SHAPES

        for signs, shape, judgement in SHAPES:
            for sign in signs:
                _by_sign.setdefault(sign, []).append((shape, judgement))
    return _by_sign


def _judge(match: re.Match[str], judgement: str) -> bool:
    from imi_monitor.model.secret_judgement import is_secret

    return is_secret(match, judgement)


def _pattern(shape: str) -> re.Pattern[str]:
    if shape not in _patterns:
        import re

        _patterns[shape] = re.compile(shape)
    return _patterns[shape]


def printable_lines(output: bytes) -> list[str]:
    """Return a program's output as lines that are safe to show and store: no secrets, no control characters."""
    from imi_monitor.model.text import safe_lines

    return safe_lines(redact(output.decode("utf-8", "surrogateescape")))
