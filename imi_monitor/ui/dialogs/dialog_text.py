"""What a dialog says: what would happen, what stands against it, how far it is, what became of it. Pure: text in, Content out."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from imi_monitor.actions.action import Preview
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.dialogs.action_run import TargetResult

_MOST_LINES = 200
_LONGEST = 600


def checking() -> Content:
    return Content.styled("looking…", MUTED)


def purpose(help: str) -> Content:
    """What the action is for, as a sentence."""
    return Content(f"{help[:1].upper()}{help[1:].rstrip('.')}.")


def missing(name: str) -> Content:
    return Content.styled(f"{name} is still to be filled in", MUTED)


def foresight(seen: Preview) -> Content:
    """What would happen; first what stands against it."""
    lines = [] if seen.refusal is None else [refusal(seen.refusal), Content("")]
    style = MUTED if seen.refusal is not None else ""
    return _joined([*lines, *(Content.styled(_line(one), style) for one in seen.lines)])


def refusal(error: ImiError) -> Content:
    """The sentence that says why not, and its details."""
    style = "$warning" if isinstance(error, UsageError) or error.code == "cancelled" else "$error"
    return _joined([Content.styled(f"✗ {_line(error.sentence)}", style), *map(Content, map(_line, error.details))])


def foresight_of_many(names: Sequence[str | None], seen: Sequence[Preview]) -> Content:
    """One line for each that can be done, more for each that cannot."""
    possible = sum(one.refusal is None for one in seen)
    lines = [Content.styled(f"{possible} of {len(names)} can be done" if possible < len(names) else "", "$warning")]
    for name, one in zip(names, seen, strict=False):
        if one.refusal is None:
            said = _line(one.lines[0]) if one.lines else ""
            lines.append(_marked("✓", "$success", name, said))
        else:
            lines.append(_marked("✗", "$error", name, _line(one.refusal.sentence)))
            lines += [Content.styled(f"    {_line(detail)}", MUTED) for detail in one.refusal.details]
    return _joined(lines if lines[0].plain else lines[1:])


def results(done: Sequence[TargetResult]) -> Content:
    """What became of each."""
    failed = sum(isinstance(one.result, ImiError) for one in done)
    lines = [Content.styled(f"{len(done) - failed} done, {failed} not" if failed else f"all {len(done)} done", "bold")]
    for one in done:
        name = one.target.name
        if isinstance(one.result, ImiError):
            lines.append(_marked("✗", "$error", name, _line(one.result.sentence)))
            lines += [Content.styled(f"    {_line(detail)}", MUTED) for detail in one.result.details]
        else:
            lines.append(_marked("✓", "$success", name, _line(one.result.lines[0]) if one.result.lines else "done"))
            lines += [Content.styled(f"    warning: {_line(text)}", "$warning") for text in one.result.warnings]
    return _joined(lines)


def progress(lines: Sequence[str], seconds: float, *, cancelled: bool) -> Content:
    """How far it is, how long it takes already, and how to stop it."""
    state = "stopping at the next safe point… esc leaves it to that" if cancelled else "working… esc stops it"
    head = Content.styled(f"{state}  {times.age(seconds)}", "$warning" if cancelled else "$accent")
    return _joined([head, *(Content.styled(_line(one), MUTED) for one in lines)])


def _marked(sign: str, style: str, name: str | None, said: str) -> Content:
    return (
        Content.styled(f"{sign} ", style)
        .append(Content.styled(safe(name or "", 60), "bold"))
        .append(Content(f"  {said}"))
    )


def _line(text: str) -> str:
    return safe(text, _LONGEST)


def _joined(lines: Sequence[Content]) -> Content:
    """A bounded number of lines; what is beyond is counted."""
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], Content.styled(f"… {count(len(lines) - _MOST_LINES, 'more line')}", MUTED)]
    return Content("\n").join(lines)
