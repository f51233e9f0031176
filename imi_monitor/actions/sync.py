"""`imi sync`: every worktree gets its links to the shared files in `sync/`, and only those.

Editing a shared file needs no sync, as the links lead to it, also when an editor replaces it by rename. What has to be
followed is which files there are.
"""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.sharing import shared_sources
from imi_monitor.actions.sharing.syncing import KINDS, Synced, sync
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository

_SHOWN_WORKTREES = 5


class Sync(Action):
    words = ("sync",)
    label = "Sync"
    help = "link the shared files of sync/ into every worktree, and take away links whose file is gone"
    more = """
    Files below sync/repo, sync/local, sync/global and sync/user of the cluster become relative links of the same name
    in every worktree, the trunk too; the first folder of this order that has a name wins. Outside a cluster the same
    folders are looked for beside the worktrees (<repo>.worktrees/sync/). A real file is never replaced, a tracked one
    never covered, and the links are listed in .git/info/exclude so that nobody commits them.
    """
    key = "Y"
    arguments = (Argument("repo", "the repository; the one you stand in if not given", optional=True),)
    options = (Option("check", "change nothing; exit status 1 when something is off"),)

    def consequences(self, context: Context, request: Request) -> list[str]:
        repository = context.repository(request.text("repo"))
        result = sync(context, repository, check=True)
        if result is None:
            return _nothing(context, repository).lines
        problems = result.problems()
        left = [f"cannot: {_problem(one, where)}" for one, where in problems.items()]
        return [*_changes(result, check=True), *left] or [_sentence(result, 0, 0, check=True)]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        repository = context.repository(request.text("repo"))
        check = request.flag("check")
        result = sync(context, repository, check=check)
        if result is None:
            return _nothing(context, repository)
        return _outcome(result, check)


def _nothing(context: Context, repository: Repository) -> Outcome:
    home = shared_sources.home_of(repository, context.settings_of(repository))
    where = os.path.join(home, "sync", "repo")
    sentence = f"nothing to sync: make {safe(where)} and put the files there that all worktrees shall share"
    return Outcome([sentence], {"message": sentence, "worktrees": [], **dict.fromkeys(KINDS, 0)})


def _outcome(result: Synced, check: bool) -> Outcome:
    problems = result.problems()
    lines = [*_changes(result, check), *map(_problem, problems, problems.values())]
    lines += [f"{safe(name)}: is linked but not listed in .git/info/exclude" for name in result.unlisted]
    lines += [f"{safe(name)}: in {win} and in {lose}, {win} wins" for name, win, lose in result.shared.shadowed]
    off = len(problems) + ((result.changed + len(result.unlisted)) if check else 0)
    sentence = _sentence(result, len(problems), off, check)
    data = _data(result, sentence)
    if off:
        raise Refused(sentence, code="sync-needed" if check else "sync-incomplete", details=lines, data=data)
    skipped = [f"{safe(name)} is missing on disk and was left out (`imi prune`)" for name in result.skipped]
    return Outcome([*lines, sentence], data, warnings=skipped)


def _sentence(result: Synced, problems: int, off: int, check: bool) -> str:
    links = result.total("kept") + result.total("linked") + result.total("moved")
    where = count(len(result.worktrees), "worktree")
    if check:
        return (
            f"{count(off, 'thing')} off: `imi sync` does what can be done"
            if off
            else f"all {count(links, 'link')} in {where} are right"
        )
    done = f"{count(links, 'link')} in {where} verified"
    news = [f"{result.total(kind)} {word}" for kind, word in _WORDS if result.total(kind)]
    tail = f" ({', '.join(news)})" if news else ""
    if problems:
        return f"sync incomplete: {count(problems, 'file')} could not be linked everywhere; {done}{tail}"
    return f"sync complete: {done}{tail}"


_WORDS = (("linked", "new"), ("moved", "re-pointed"), ("removed", "removed"))


def _changes(result: Synced, check: bool) -> list[str]:
    words = ("would link", "would re-point", "would remove") if check else ("linked", "re-pointed", "removed")
    lines = []
    for name, _, report in result.worktrees:
        parts = zip(words, (report.linked, report.moved, report.removed), strict=True)
        said = [f"{word} {', '.join(map(safe, names))}" for word, names in parts if names]
        if said:
            lines.append(f"{safe(name)}: {'; '.join(said)}")
    return lines


def _problem(problem: tuple[str, str], worktrees: list[str]) -> str:
    name, reason = problem
    shown = ", ".join(map(safe, worktrees[:_SHOWN_WORKTREES]))
    more = f" and {len(worktrees) - _SHOWN_WORKTREES} more" if len(worktrees) > _SHOWN_WORKTREES else ""
    where = f" (in {shown}{more})" if worktrees else ""
    return f"{safe(name)}: {reason}{where}" if name else f"{reason}{where}"


def _data(result: Synced, sentence: str) -> dict[str, object]:
    listed = [
        {
            "name": name,
            "path": path,
            **{kind: list(getattr(report, kind)) for kind in KINDS},
            "conflicts": [{"name": file, "reason": reason} for file, reason in report.conflicts],
        }
        for name, path, report in result.worktrees
    ]
    return {
        "message": sentence,
        "sync_path": os.path.join(result.shared.home, "sync"),
        **{kind: result.total(kind) for kind in KINDS},
        "refused": [{"name": name, "reason": reason} for name, reason in result.shared.refused],
        "shadowed": [{"name": name, "used": win, "hidden": lose} for name, win, lose in result.shared.shadowed],
        "missing": list(result.skipped),
        "unlisted": list(result.unlisted),
        "worktrees": listed,
    }


ACTIONS = (Sync(),)
