"""Several programs with one prompt, each in a new worktree of its own: `imi start claude,codex --new feat/login`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from imi_monitor.actions.action import Outcome, Request
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.store.runs import RunRow

_MOST = 8
_NAMED = 3  # worktrees in the name of a group


def programs_of(text: str) -> list[str]:
    """The programs of `claude,codex`; one may stand there twice."""
    named = [one.strip() for one in text.split(",") if one.strip()]
    if len(named) > _MOST:
        raise UsageError(f"at most {_MOST} agents can be started at once", code="too-many")
    return named or [text]


def requests_of(request: Request) -> list[Request]:
    """The request for each program; the same request if there is one program."""
    programs = programs_of(request.text("program") or "")
    if len(programs) == 1:
        return [request]
    new = request.text("new")
    if new is None:
        raise UsageError("each of several agents needs a worktree of its own: use --new TYPE/NAME", code="bad-option")
    for name in ("as", "branch"):
        if request.text(name) is not None:
            raise UsageError(f"--{name} is for one agent: leave it out for several", code="bad-option")
    return [
        Request(request.verb, {**request.values, "program": program, "new": f"{new}-{tail}", "group": new})
        for program, tail in zip(programs, _tails(programs), strict=True)
    ]


def _tails(programs: Sequence[str]) -> list[str]:
    """`claude`, `codex`, and for a second Claude `claude-2`."""
    found = []
    for place, program in enumerate(programs):
        before = programs[:place].count(program)
        found.append(program if not before else f"{program}-{before + 1}")
    return found


def run_all(requests: Sequence[Request], start: Callable[[Request], Outcome]) -> Outcome:
    """Start one after the other; one that does not start is named and leaves the others alone."""
    done: list[Outcome] = []
    failed: list[tuple[str, ImiError]] = []
    for one in requests:
        try:
            done.append(start(one))
        except ImiError as error:
            failed.append((str(one.text("program")), error))
    if not done:
        raise failed[0][1]
    group = str(requests[0].text("group"))
    warnings = [text for one in done for text in one.warnings]
    warnings += [f"{program} was not started: {error.sentence}" for program, error in failed]
    lines = [one.lines[0] for one in done if one.lines]
    return Outcome(
        [*lines, f"compare  imi compare {safe(group)}"],
        {"group": group, "runs": [one.data for one in done], "count": len(done)},
        warnings=warnings,
        exit_status=1 if failed else 0,
    )


def name_group(worktrees: Sequence[str]) -> str:
    """The name of the group of runs with one prompt in these worktrees: `feat-x+fix-y`."""
    more = len(worktrees) - _NAMED
    return "+".join([*worktrees[:_NAMED], *([f"{more}-more"] if more > 0 else [])])


def consequences(requests: Sequence[Request], describe: Callable[[Request], list[str]]) -> list[str]:
    """What each start would do; what is the same for all once, at the end."""
    described = [describe(one) for one in requests]
    same = [line for line in described[0][1:] if all(line in lines for lines in described)]
    return [f"starts {count(len(requests), 'agent')} with one prompt", *(lines[0] for lines in described), *same]


def group_of(row: RunRow) -> str | None:
    """The group that the run was started in."""
    group = json.loads(row.launch).get("group")
    return group if isinstance(group, str) else None
