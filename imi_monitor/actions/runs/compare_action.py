"""`imi compare` and `imi keep`: agents with one prompt side by side; one worktree is kept, the others go to the trash."""

from __future__ import annotations

import time

from imi_monitor.actions import find as find_action
from imi_monitor.actions.action import Action, Argument, Option, Outcome, Preview, Request
from imi_monitor.actions.runs import run_comparison
from imi_monitor.actions.status import status_action
from imi_monitor.model import agent_text, state_words, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.styled_text import ERROR, MUTED, NAME, SUCCESS, styled
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import YES_REALLY
from imi_monitor.runs import run_stop
from imi_monitor.runs.run_ingest import RunIngest
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.runs.run_comparison import ComparedRun

_COLUMNS = (
    Column("Worktree", least=20, name=True),
    Column("Program"),
    Column("State"),
    Column("For", right=True),
    Column("Files", right=True),
    Column("Lines", right=True),
    Column("Check", least=8, rank=1),
    Column("Tokens", right=True, rank=2),
    Column("Cost", right=True, rank=2),
    Column("Unread", right=True, rank=3),
    Column("Same files", right=True, rank=3),
)
_RECORD_SECONDS = 10.0


class CompareAction(Action):
    words = ("compare",)
    group = "Agents"
    label = "Compare"
    help = "compare what agents with one prompt have made"
    more = (
        "For agents that were started together: `imi start claude,codex --new feat/NAME --prompt TEXT`. Files and lines are what"
        " a worktree has changed since the trunk, committed or not; Check is the last command that `imi exec` or `!` ran there"
        " since the start; Same files are those that another one of them changed as well. `imi keep NAME` keeps one."
    )
    examples = (("imi compare feat/login", "compare feat-login-claude, feat-login-codex …"),)
    arguments = (
        Argument(
            "name", "the name given to --new, or one of the worktrees or runs; default: the newest", optional=True
        ),
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        group, members = run_comparison.find_group(context, request.text("name"))
        rows = run_comparison.compare(context, members)
        lines = table(_COLUMNS, [_row(one) for one in rows], status_action.terminal_width())
        prompt = (members[0].row.prompt or "").split("\n")[0]
        head = f"{safe(group)}: {safe(prompt, 200)}"
        data: dict[str, object] = {"group": group, "prompt": members[0].row.prompt, "runs": rows, "count": len(rows)}
        return Outcome([head, "", *lines, "", "keep one  imi keep NAME"], data)


def _row(one: dict[str, Any]) -> list[str]:
    check = one["check"]
    passed = check is not None and check["status"] == 0
    said = "" if check is None else f"{'✓' if passed else '✗'} {safe(str(check['command']), 60)}"
    lines = "?" if one["added"] is None else f"+{one['added']} -{one['removed']}"
    unread = "?" if one["unread"] is None else f"{one['unread']}/{one['total']}"
    cost = one["cost_usd"]
    return [
        styled(safe(str(one["worktree_name"]), 60), NAME),
        safe(str(one["program"]), 20),
        styled("removed" if one["removed_from_disk"] else one["state"], state_words.style_of(one["state"])),
        styled("?" if one["seconds"] is None else times.age(one["seconds"]), MUTED),
        "?" if one["files"] is None else str(one["files"]),
        lines,
        styled(said, SUCCESS if passed else ERROR) if check is not None else "",
        agent_text.format_tokens(one["tokens"]),
        "?" if cost is None else f"${cost:.2f}",
        unread,
        "?" if one["same_files"] is None else str(len(one["same_files"])),
    ]


class KeepAction(Action):
    words = ("keep",)
    group = "Merge and remove"
    label = "Keep"
    help = "keep one worktree of those with one prompt, and move the others to the trash"
    more = (
        "The others go to the trash whole, with what is uncommitted in them; `imi undo` brings each back, and their branches"
        " stay. What would be left unfinished is listed first and needs --force, which also ends their agents."
    )
    examples = (("imi keep feat-login-codex", "move feat-login-claude and the others to the trash"),)
    dangerous = True
    arguments = (Argument("name", "the worktree to keep, or its run"),)
    options = (
        Option("force", "although others have uncommitted or unmerged work, or an agent that runs", aliases=("f",)),
    )

    def preview(self, context: Context, request: Request) -> Preview:
        try:
            kept, others = _choose(context, request)
        except ImiError as error:
            return Preview([], error)
        lines = [f"keeps {safe(str(kept.row.worktree_name))}"]
        against: list[str] = []
        for one in others:
            name = safe(str(one.row.worktree_name))
            if one.row.is_open:
                against.append(f"{name}: {safe(one.row.agent_id)} {one.row.shown_state} there and is ended")
            lines.append(f"moves {name} to the trash; `imi undo` brings it back")
            refusal = _removal_preview(context, one, force=False).refusal
            against += [f"{name}: {line}" for line in _reasons(one, refusal)]
        if against and not request.flag("force"):
            what = "the others have work that is not merged or not finished: --force moves them to the trash with it"
            return Preview(lines, Refused(what, code="unsafe", data={"state": "unsafe"}, details=tuple(against)))
        return Preview([*lines, *against])

    def override(self, refusal: ImiError, name: str) -> dict[str, object] | None:
        return {"force": True} if refusal.code == "unsafe" else None

    def run(self, context: Context, request: Request) -> Outcome:
        shown = self.preview(context, request)
        if shown.refusal is not None:
            raise shown.refusal
        kept, others = _choose(context, request)
        lines, moved, warnings = [f"kept {safe(str(kept.row.worktree_name))}"], [], []
        for one in others:
            try:
                _end(context, one, context.agent(request))
                outcome = _remove(context, one)
            except ImiError as error:
                warnings.append(f"{safe(str(one.row.worktree_name))} stays: {error.sentence}")
                continue
            lines += outcome.lines[:1]
            moved.append({"worktree_name": one.row.worktree_name, "trash_id": outcome.data.get("trash_id")})
        data: dict[str, object] = {"kept": kept.row.worktree_name, "moved": moved, "count": len(moved)}
        return Outcome(lines, data, warnings=warnings, exit_status=1 if warnings else 0)


def _choose(context: Context, request: Request) -> tuple[ComparedRun, list[ComparedRun]]:
    """The member to keep, and the others that are still there."""
    name = request.text("name") or ""
    _, members = run_comparison.find_group(context, name)
    kept = next((one for one in members if name in (one.row.worktree_name, one.row.id, one.row.short)), None)
    if kept is None:
        named = ", ".join(safe(str(one.row.worktree_name)) for one in members)
        raise Refused(f"{safe(name, 80)!r} names all of {named}: name the one to keep", code="ambiguous")
    if kept.found is None:
        raise Refused(f"{safe(str(kept.row.worktree_name))} is not there any more: keep another one", code="missing")
    others = [one for one in members if one is not kept and one.found is not None]
    if not others:
        raise Refused(f"{safe(str(kept.row.worktree_name))} is the only one left", code="nothing")
    return kept, others


def _removal_request(one: ComparedRun, *, force: bool) -> Request:
    values: dict[str, object] = {"name": str(one.row.worktree_name)}
    if one.row.repo_name is not None:
        values["repo"] = one.row.repo_name
    return Request("remove", {**values, "force": True} if force else values)


def _removal_preview(context: Context, one: ComparedRun, *, force: bool) -> Preview:
    remove = find_action("remove")
    assert remove is not None
    return remove.preview(context, _removal_request(one, force=force))


def _remove(context: Context, one: ComparedRun) -> Outcome:
    remove = find_action("remove")
    assert remove is not None
    return remove.run(context, _removal_request(one, force=True))


def _reasons(one: ComparedRun, refusal: ImiError | None) -> list[str]:
    """What stands against removing it, beside its own agent, which is ended."""
    if refusal is None:
        return []
    found = (refusal.data or {}).get("reasons")
    if not isinstance(found, list):
        return [refusal.sentence]
    named = [
        (str(each["sentence"]), each["names"])
        for each in found
        if not (one.row.is_open and each["override"] == YES_REALLY)
    ]
    return [
        f"{sentence}{': ' if names else ''}{', '.join(safe(str(name), 60) for name in names[:3])}"
        for sentence, names in named
    ]


def _end(context: Context, one: ComparedRun, by: str) -> None:
    """End the agent of an open run, and return once its end is recorded, so that its claim is released."""
    if not one.row.is_open:
        return
    run_stop.stop(context.connection, one.row, by)
    until, ingest = time.monotonic() + _RECORD_SECONDS, RunIngest(context.connection)
    while (now := db.read(context.connection, runs.by_id, one.row.id)) is not None and now.is_open:
        if time.monotonic() > until:
            raise Refused(
                f"{one.row.short} is stopped, but its end is not recorded yet: try again", code="not-recorded"
            )
        ingest.update()
        time.sleep(0.02)


ACTIONS = (CompareAction(), KeepAction())
