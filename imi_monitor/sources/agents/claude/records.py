"""One line of a transcript as a record, when it can matter, and its fields without trust in their types.

Most bytes of a transcript are copies of what was sent to the model. Those lines are known by their first bytes and are
never parsed. What is not known to be useless is parsed: a new kind of record must not hide among them.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from imi_monitor.sources.agents import loose

Record: TypeAlias = dict[str, Any]

_USELESS = tuple(
    b'{"type":"' + kind
    for kind in (b'mode"', b"atis-", b"api-", b'last-prompt"', b'tools-used"', b'file-history-snapshot"', b'progress"')
)
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_BEGINNINGS = (b'{"parentUuid":', b'{"type":')
_ATTACHMENT = b'"attachment":{'
_HEAD = 200  # bytes in which a record says what it is


def matters(line: bytes) -> bool:
    """Whether a record may say something of the session. Bytes with bare quotes cannot lie inside a JSON string."""
    return not line.startswith(_USELESS) and line.find(_ATTACHMENT, 0, _HEAD) < 0


def parse(line: bytes) -> Record | None:
    """A record; None when it cannot be read. What follows a line torn by a crash is saved."""
    whole = loose.record(line)
    if whole is None:
        start = max(line.rfind(beginning, 1) for beginning in _BEGINNINGS)
        whole = loose.record(line[start:]) if start > 0 else None
    return whole


def identity(value: object) -> str | None:
    """A session's name, which is also a file's: nothing that leads elsewhere."""
    return value if isinstance(value, str) and _IDENTITY.match(value) else None


def rows(value: object) -> list[Record]:
    return [one for one in loose.rows(value) if isinstance(one, dict)]


def said(content: object) -> str | None:
    """The text of a message, given as one text or as blocks."""
    if isinstance(content, list):
        content = "\n".join(one["text"][: loose.MOST_TEXT] for one in rows(content) if isinstance(one.get("text"), str))
    return loose.text(content)
