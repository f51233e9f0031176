"""The packet: the first prompt of a session that goes on for another one, made from its last checkpoint."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_FILES = 50


def packet(
    task: str, state: dict[str, object], *, changed: Sequence[str], uncommitted: Sequence[str], head: str | None
) -> str:
    """`state` is that of the checkpoint, `changed` its files that are other ones now."""
    parts = ["You take over the work of an agent whose session cannot be resumed.", f"Its task:\n{task}"]
    for title, value in (
        ("The last prompt it got", state.get("prompt") if state.get("prompt") != task else None),
        ("Its plan", state.get("plan")),
        ("The last it said", state.get("message")),
    ):
        if value:
            parts.append(f"{title}:\n{value}")
    parts += _listed(
        "Tool calls that had not ended; look at what they did before you repeat one", _texts(state, "open")
    )
    files = state.get("files")
    known = [str(one.get("path")) for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    parts += _listed("Files it wrote", [f"{one} (changed since)" if one in changed else one for one in known])
    before = state.get("head")
    if before and head and before != head:
        parts.append(f"HEAD was {before} and is {head} now.")
    parts += _listed("Uncommitted now", uncommitted)
    parts.append("Look at what is done, then go on.")
    return "\n\n".join(parts)


def _texts(state: dict[str, object], name: str) -> list[str]:
    found = state.get(name)
    return [str(one) for one in found] if isinstance(found, list) else []


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = [f"… and {len(lines) - _MOST_FILES} more"] if len(lines) > _MOST_FILES else []
    return ["\n".join([f"{title}:", *(f"- {one}" for one in lines[:_MOST_FILES]), *more])]
