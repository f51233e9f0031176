"""Finding a run by what a user types, and the options that the verbs of runs share."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Argument
from imi_monitor.model import names, times, usage_limit
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import follower_process, job_log
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import AskRow, RunRow

_WHICH = "a run, as `imi runs` shows it, its agent, or its worktree"
RUN = Argument("name", _WHICH)
MAYBE_RUN = Argument("name", f"{_WHICH}; without it the newest run", optional=True)


def find_run(context: Context, name: str | None, *, only_open: bool = False) -> RunRow:
    """The one run that `name` begins, or without a name the newest; Refused with those it may mean."""
    follow(context)
    if not name:
        newest = db.read(context.connection, runs.list_runs, only_open=only_open, limit=1)
        if not newest:
            raise Refused("no agent was started yet: `imi start claude --prompt TEXT` starts one", code="no-run")
        return newest[0]
    found = db.read(context.connection, runs.find_by_prefix, name) or _in_worktree(context, name)
    whole = [one for one in found if name in (one.id, one.session, one.agent_id)]
    living = [one for one in whole or found if one.is_open]
    for among in (living, whole, found):
        if len(among) == 1 or (among and len({one.session for one in among}) == 1):
            return among[0]
    if not found:
        raise Refused(f"no run {safe(name, 60)!r}: `imi runs` lists them", code="no-run")
    named = ", ".join(one.short for one in found[:5])
    raise Refused(f"{safe(name, 60)!r} may mean {named}: give more characters", code="ambiguous")


def _in_worktree(context: Context, name: str) -> list[RunRow]:
    """The newest run in the worktree of this name: an open one before one that is over."""
    wanted = names.candidates(name, worktree_lookup.name_prefixes(context))
    repository = context.find_repository()
    repo = context.repo_name(repository) if repository is not None else None
    found = db.read(context.connection, runs.list_in_worktree, wanted, repo)
    return [next((one for one in found if one.is_open), found[0])] if found else []


def refuse_over(one: RunRow) -> None:
    """Refuse a run whose agent does not run."""
    if one.status == "queued":
        raise Refused(f"{one.short} waits in the queue: its agent does not run yet", code="queued")
    if not one.is_open:
        raise Refused(
            f"{one.short} is over ({one.status}): `imi start --continue {one.short}` takes its session up again",
            code="ended",
        )


def follow(context: Context) -> None:
    """Make sure that a follower records what the runs say, if any run is open."""
    if db.read(context.connection, runs.list_runs, only_open=True, limit=1) and not context.registry_is_read_only:
        follower_process.ensure(context.database)


_OF_LAUNCH = ("mode", "model", "flags", "dangerous", "base", "task", "labels", "parent", "holder", "budget")
_OF_WALL = ("sandbox", "wall", "contained")


def run_data(one: RunRow, asks: list[AskRow] | None = None) -> dict[str, object]:
    """A run for `--json`; null where unknown."""
    import json

    plain = {name: getattr(one, name) for name in one.__dataclass_fields__ if name not in ("seq", "launch")}
    launch = json.loads(one.launch)
    shown = {name: launch.get(name) for name in (*_OF_LAUNCH, *_OF_WALL)}
    questions = [
        {"id": each.id, "tool": each.tool, "text": each.text, "asked_at": each.asked_at} for each in asks or []
    ]
    shown["job_log"] = job_log.path(one)
    reached = one.usage_limit
    shown["limit"] = None if reached is None else usage_limit.words(reached)
    shown["limited_until"] = None if reached is None or reached.until is None else times.stamp(reached.until)
    return {**plain, "shown_state": one.shown_state, **shown, "asks": questions}
