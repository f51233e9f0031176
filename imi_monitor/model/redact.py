"""Redacts secrets in text: passwords in URLs, tokens of known formats, authorization headers.

git repeats a URL that it cannot reach, and error texts reach screens, logs and events. A doubtful match is redacted. `re` is
imported only when a text may hold a secret; the hot commands never get that far.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_MASK = "***"
_patterns: dict[int, re.Pattern[str]] = {}

# The start of a word; an escape sequence for a colour may precede it.
_START = r"(?:\b|(?<=\dm))"

# The names under which a secret is set.
_NAMES = r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"
_CALLED = (
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "signature",
    *(f"{word}{sign}key" for word in ("api", "access", "private") for sign in ("", "_", "-")),
)
_PREFIXES = ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat", "glptt", "sk", "npm", "pypi", "dckr_pat")

# (case-folded words of which the text must hold one, the pattern, its replacement). The words are a cheap test that most
# texts fail. Repetitions in the patterns are bounded, so that no text makes the search quadratic.
_RULES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # In an http URL everything before the host is redacted, because the user may be a token; in others only the password.
    # It ends at the last @ of the word, because a password may hold / and @; `host:8080/a@b` has no password.
    (
        ("@",),
        r"(?i)(https?://)(?:[^\s/:'\"]{0,256}:(?!\d{1,5}(?:/|$))[^\s'\"]{0,1024}|[^\s/'\"]{1,1024})@",
        rf"\1{_MASK}@",
    ),
    (("@",), r"(://[^\s/:'\"]{0,256}):(?!\d{1,5}(?:/|$))[^\s'\"]{0,1024}@", rf"\1:{_MASK}@"),
    (
        ("xox", *(prefix + sign for prefix in _PREFIXES for sign in "_-")),
        rf"{_START}((?:gh[pousr]|github_pat|glpat|glptt|xox[a-z]|sk|npm|pypi|dckr_pat)[_-])[A-Za-z0-9_.\-]{{16,512}}",
        rf"\1{_MASK}",
    ),
    (("akia", "asia"), rf"{_START}(AKIA|ASIA)[A-Z0-9]{{16}}\b", rf"\1{_MASK}"),
    (
        ("authorization",),
        rf"(?i){_START}(authorization['\"]?\s{{0,8}}[:=]\s{{0,8}}['\"]?(?:(?:basic|bearer|token)\s)?)[^\s'\"]{{1,2048}}",
        rf"\1{_MASK}",
    ),
    (("bearer",), rf"(?i){_START}(bearer\s{{1,8}})[A-Za-z0-9._~+/=\-]{{12,2048}}", rf"\1{_MASK}"),
    (_CALLED, r"(?i)((?:token|secret|password|passwd|api[_-]?key|signature)=)[^&\s'\"]{1,2048}", rf"\1{_MASK}"),
    # Input of agents' tools: JSON, YAML, settings with spaces around the sign, options, whole keys.
    (_CALLED, rf"(?i)({_NAMES}\\?['\"]\s{{0,8}}:\s{{0,8}}\\?['\"])[^'\"\\]{{1,2048}}", rf"\1{_MASK}"),
    (_CALLED, rf"(?i)({_NAMES}(?:\s{{0,4}}=\s{{0,4}}|\s{{0,4}}:\s{{1,4}})['\"]?)[^\s'\",;&]{{1,2048}}", rf"\1{_MASK}"),
    (
        _CALLED,
        rf"(?i)((?<![\w-])--?(?:[a-z]{{1,20}}-){{0,3}}{_NAMES}\s{{1,4}})[^\s'\"-][^\s'\"]{{0,2047}}",
        rf"\1{_MASK}",
    ),
    (("private key",), r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[A-Za-z0-9+/=\s\\,:-]{0,16384}", rf"\1{_MASK}"),
    (("eyj",), rf"{_START}eyJ[A-Za-z0-9_-]{{8,4096}}\.[A-Za-z0-9_-]{{4,8192}}(?:\.[A-Za-z0-9_-]{{0,4096}})?", _MASK),
    (("aiza",), rf"{_START}(AIza)[A-Za-z0-9_-]{{30,60}}", rf"\1{_MASK}"),
    (
        ("hf_", "k_live_", "sq0", "sg."),
        rf"{_START}(hf_|sk_live_|rk_live_|sq0[a-z]{{3}}-|SG\.)[A-Za-z0-9_.-]{{16,512}}",
        rf"\1{_MASK}",
    ),
)


def redact(text: str) -> str:
    """Return `text` with every recognised secret replaced by ***."""
    folded = text.casefold()
    for number, (signs, rule, mask) in enumerate(_RULES):
        for sign in signs:
            if sign in folded:
                text = _pattern(number, rule).sub(mask, text)
                break
    return text


def _pattern(number: int, rule: str) -> re.Pattern[str]:
    if number not in _patterns:
        import re

        _patterns[number] = re.compile(rule)
    return _patterns[number]


def printable_lines(output: bytes) -> list[str]:
    """Return a program's output as lines that are safe to show and store: no secrets, no control characters."""
    from imi_monitor.model.text import safe_lines

    return safe_lines(redact(output.decode("utf-8", "surrogateescape")))
