"""The text of a dialog: the preview, the reasons against it, the progress, the results. Pure functions that return Content."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from imi_monitor.actions.action import Preview
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.dialogs.action_run import TargetResult
from imi_monitor.ui.key_hints import in_keys

_MOST_LINES = 200
_LONGEST_LINE = 600


def checking() -> Content:
    return Content.styled("checking…", MUTED)


def purpose(help: str) -> Content:
    """Return an action's help as a sentence."""
    shown = in_keys(help)
    return Content(f"{shown[:1].upper()}{shown[1:].rstrip('.')}.")


def missing(label: str) -> Content:
    return Content.styled(f"Enter: {label.lower()}", MUTED)


def preview(found: Preview, then: str = "") -> Content:
    """Return what the action would do and what happens `then`, below the refusal if there is one."""
    lines = [] if found.refusal is None else [refusal(found.refusal), Content("")]
    style = MUTED if found.refusal is not None else ""
    behind = [Content.styled(then, MUTED)] if then and found.refusal is None else []
    return _joined([*lines, *(Content.styled(_line(text), style) for text in found.lines), *behind])


def refusal(error: ImiError) -> Content:
    """Return the error's sentence and its details."""
    style = "$warning" if isinstance(error, UsageError) or error.code == "cancelled" else "$error"
    details = (line for line in map(_line, error.details) if line)
    return _joined([Content.styled(f"✗ {_line(error.sentence)}", style), *map(Content, details)])


def previews(names: Sequence[str | None], found: Sequence[Preview]) -> Content:
    """Return one line for each worktree the action can be run on, more for each refusal."""
    possible = sum(one.refusal is None for one in found)
    advice = _common_advice([_line(one.refusal.sentence) for one in found if one.refusal is not None])
    head = f"{possible} of {len(names)} can be done{f': {advice}' if advice else ''}"
    lines = [Content.styled(head, "$warning")] if possible < len(names) else []
    for name, one in zip(names, found, strict=False):
        lines += _result_lines(name, one.refusal, one.lines, [], advice)
    return _joined(lines)


def _common_advice(sentences: Sequence[str]) -> str:
    """The advice behind the colon, if all of several refusals give the same."""
    tails = {sentence.partition(": ")[2] for sentence in sentences}
    return tails.pop() if len(sentences) > 1 and len(tails) == 1 else ""


def results(done: Sequence[TargetResult]) -> Content:
    """Return how it ended for each worktree."""
    failed = sum(isinstance(one.result, ImiError) for one in done)
    lines = [Content.styled(f"{len(done) - failed} done, {failed} not" if failed else f"all {len(done)} done", "bold")]
    for one in done:
        name, result = one.target.name, one.result
        if isinstance(result, ImiError):
            lines += _result_lines(name, result, [], [])
        else:
            lines += _result_lines(name, None, result.lines or ["done"], result.warnings)
    return _joined(lines)


def progress(line: str, seconds: float, *, cancelled: bool) -> Content:
    """Return the time spent, how to stop it, and the last line of progress."""
    state, hint = (
        ("Stopping at the next safe point", "Esc closes the dialog") if cancelled else ("Working", "Esc cancels")
    )
    head = Content.styled(f"{state}… {times.age(seconds)} ({hint})", "$warning" if cancelled else "$accent")
    return _joined([head, Content.styled(_line(line), MUTED)])


def _result_lines(
    name: str | None, error: ImiError | None, lines: Sequence[str], warnings: Sequence[str], advice: str = ""
) -> list[Content]:
    """Return a line with `✓` or `✗`, the worktree's name and the first sentence; below it the details or warnings.

    Its own name and the advice given above are left out of the sentence.
    """
    if error is not None:
        said = _line(error.sentence).removeprefix(f"{name} ")
        said = said.removesuffix(f": {advice}") if advice else said
        details = [Content.styled(f"    {line}", MUTED) for line in map(_line, error.details) if line]
        return [_marked("✗", "$error", name, said), *details]
    told = [Content.styled(f"    warning: {_line(text)}", "$warning") for text in warnings]
    return [_marked("✓", "$success", name, _line(lines[0]) if lines else ""), *told]


def _marked(sign: str, style: str, name: str | None, text: str) -> Content:
    marked = Content.styled(f"{sign} ", style).append(Content.styled(safe(name or "", 60), "bold"))
    return marked.append(Content(f"  {text}"))


def _line(text: str) -> str:
    return safe(in_keys(text), _LONGEST_LINE)


def _joined(lines: Sequence[Content]) -> Content:
    """Return the lines below each other; of very many the first ones and the number of the others."""
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], Content.styled(f"… {count(len(lines) - _MOST_LINES, 'more line')}", MUTED)]
    return Content("\n").join(lines)
