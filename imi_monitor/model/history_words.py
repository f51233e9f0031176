"""What is searched of an event: its sentence in the first line, then the values of its data and the texts of its session."""

from __future__ import annotations

from imi_monitor.model import event_text, times
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.model.snapshot import RegistryEvent

_LONGEST_LINE = 300
_MOST_VALUES = 200


def of_event(event: RegistryEvent, texts: tuple[str | None, ...] = ()) -> str:
    """The words of an event; `texts` are those of its session."""
    first = safe(str(event_text.sentence(event)), _LONGEST_LINE)
    named = [name for name in (event.repo, event.worktree, event.agent, event.type) if name and name not in first]
    values = [word for _, word in zip(range(_MOST_VALUES), _values(event_text.data_of(event)), strict=False)]
    more = " ".join(safe(one) for one in dict.fromkeys((*named, *values)) if one not in first)
    return redact("\n".join(filter(None, (first, more, *texts))))


def sentence(words: str) -> str:
    """The first line."""
    return words.partition("\n")[0]


def _values(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value[:2] != "20" or times.parse(value) is None:  # moments are not searched for by their text
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _values(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
