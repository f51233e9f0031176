"""Judges a doubtful match of a secret's shape: placeholders and code are no secrets, what looks random is one."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from imi_monitor.model.secret_shapes import HEADER, NAME, RANDOM, SET, SHORT

_PLACEHOLDER_WORDS = (
    "none null nil true false undefined required optional missing empty unset invalid expired str string text "
    "int number bytes bool boolean object any char self value values here changeme example redacted masked "
    "hidden removed inherit basic bearer digest token apikey "
)
_OBJECT_WORDS = (
    "self this cls os sys process args argv config cfg conf settings options opts env environ request req "
    "response res event ctx context params user session data body headers secrets vars var local module props "
    "state input "
)
_PLACEHOLDERS, _OBJECTS = frozenset(_PLACEHOLDER_WORDS.split()), frozenset(_OBJECT_WORDS.split())
_WEAK = ("token", "key", "secret", "credential", "signature", "auth", "pin", "dsn", "pat", "otp")
_pattern = cache(re.compile)


def is_secret(match: re.Match[str], judgement: str) -> bool:
    """Whether group `s` of the match is a secret."""
    value = match["s"]
    if judgement == RANDOM:
        return is_random(value)
    if judgement == HEADER:
        return len(value) >= 6 and not _is_placeholder(value)
    if judgement == SHORT:
        return not _is_placeholder(value) and _is_password_option(match.group(), value)
    if judgement == SET:
        return _names_a_secret(match["name"]) and not _is_placeholder(value)
    return _is_named_secret(match, value)


def _is_password_option(command: str, value: str) -> bool:
    """`docker run -p 8080:80` and `docker compose -p shop` name no password."""
    container = _pattern(r"(?:docker|podman|nerdctl|buildah|helm|oc|az|cf)\b").match(command) is not None
    return "login" in command if container else _pattern(r"[\d.:/\-]+(?:tcp|udp)?").fullmatch(value) is None


def _is_named_secret(match: re.Match[str], value: str) -> bool:
    """The value of a setting with a telling name: anything but a placeholder and code."""
    groups = match.groupdict()
    before = match.group()[: match.start("s") - match.start()].casefold()
    separator, quoted, tail = groups.get("sep") or "", groups.get("q") is not None, groups.get("tail") or ""
    if _is_placeholder(value) or (not quoted and value.isalpha() and value.casefold() in before):
        return False
    spaced = separator.strip("'\"]\\") != separator.strip("'\"]\\ \t") or not separator
    weak = "passw" not in before and "passphrase" not in before and any(word in before for word in _WEAK)
    if not quoted and _is_code(value, spaced):
        return False
    if weak:
        count = value.isdigit() and len(value) < 16  # `tokens: 4096`
        return len(value) >= 6 and not count and _is_odd(value) and (quoted or not spaced or not _is_word(value))
    # "password: must be …" is a sentence; "Password: hunter" ends here
    words = spaced and not quoted and value.isalpha() and (value.islower() or value.istitle())
    return not (words and tail[:1] in (" ", "\t"))


def _names_a_secret(name: str) -> bool:
    return _pattern(rf"(?i){NAME}|_(?:key|auth|pass|pat)").search(name) is not None


def _is_placeholder(value: str) -> bool:
    bare = value.strip("'\"`.,;:!?()[]{}<>*%$_-")
    if set(bare.casefold()) <= set("x…•") or bare.casefold() in _PLACEHOLDERS:  # ***, xxxx, ...
        return True
    if value[:1] in "<{[(" or value[:2] in ("%(", "@{", "${", "$(", "%{"):
        return True
    return value[0] == "$" and value[1:].replace("_", "a").isalnum() and not any(map(str.isdigit, value))


def _is_code(value: str, spaced: bool) -> bool:
    """`getpass()`, `os.environ["X"]`, `self.token`, `args.token`, a type, a path of a module."""
    found = _pattern(r"([A-Za-z_]\w{0,80})((?:\.[A-Za-z_]\w{0,80}){0,8})([(\[][^\n]{0,2000})?").fullmatch(value)
    if found is None:
        return False
    head, attributes, call = found.groups()
    if call:
        return spaced or value.endswith((")", "]", "(", "["))
    if attributes:
        return head in _OBJECTS or (spaced and not any(map(str.isdigit, value)))
    return spaced and "_" in value.strip("_") and value.islower() and not any(map(str.isdigit, value))


def _is_odd(value: str) -> bool:
    """Return whether this is no plain word: it has a digit, a sign or mixed case, or is long."""
    return not value.isalpha() or len(value) >= 16 or not (value.islower() or value.isupper() or value.istitle())


def _is_word(value: str) -> bool:
    """Return whether these are words as in prose or code: CamelCase, joined by signs, with numbers behind them."""
    part = r"(?:[A-Z]{0,4}[a-z]{3,15}|[A-Z]{2,12}|\d{1,6}|[Ii][dDsnfo]|[A-Z]?[a-z]{2}(?=[A-Z_]))"
    joined = rf"(?:[-_./:]{{1,2}}|(?=[A-Z])){part}"
    return _pattern(rf"{part}(?:{joined}){{0,8}}\d{{0,3}}[.:)]?").fullmatch(value) is not None


def is_random(value: str) -> bool:
    """Return whether the text looks random: digits among letters or many changes of case; no path, date or chain of words."""
    if len(value) < 8:
        return False
    digits = sum(map(str.isdigit, value))
    letters = sum(map(str.isalpha, value))
    if digits and letters and not _pattern(r"[a-z]{2,20}(?:[-_./:][a-z0-9.]{1,20}){1,30}").fullmatch(value):
        return True
    if digits and letters:  # words and numbers joined by signs: random only if the parts are long and mixed
        parts = _pattern(r"[-_./:]").split(value)
        return any(len(part) >= 12 and any(map(str.isdigit, part)) for part in parts)
    changes = sum(one.islower() and other.isupper() for one, other in pairwise(value))
    return letters >= 12 and changes >= 3
