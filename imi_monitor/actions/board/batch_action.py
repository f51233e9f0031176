"""`imi batch FILE`: makes items of a file and starts an agent on each; without a file it lists what there is."""

from __future__ import annotations

import os
import subprocess
import sys

from imi_monitor.actions import time_format
from imi_monitor.actions.action import Action, Argument, Option, Outcome, Request
from imi_monitor.actions.board import batch_files, item_lookup
from imi_monitor.actions.board.batch_lock import BatchLock
from imi_monitor.actions.board.batch_run import BatchRun
from imi_monitor.actions.runs.start_action import StartAction
from imi_monitor.actions.signal_mark import SignalMark
from imi_monitor.model import board, times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.runs import job_log, providers, run_folder, run_limit, state_files
from imi_monitor.runs.run_plan import own_environment
from imi_monitor.store import batches, db, item_moves, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.board.batch_files import BatchFile
    from imi_monitor.actions.context import Context
    from imi_monitor.store.items import ItemRow

_START = StartAction()
_PASSED = ("model", "ask", "edits", "plan", "minutes", "budget")
_MOST_PARALLEL = 64


class BatchAction(Action):
    words = ("batch",)
    group = "Board"
    label = "Start a batch"
    help = "start an agent on each item of a priority file or task definition, or list these files"
    more = """Files: `reports/priorities-YYYY-MM-DD.md`, `marketing-priority-YYYYMMDD.md` and `tasks/*.json`. Each item gets a
    worktree of its own. One that fails stops no other. Started again, a batch goes on where it was, and makes nothing twice.
    Ctrl-C and SIGTERM end its agents; their items wait again. With --json one object per line."""
    examples = (
        ("imi batch", "list the files of this worktree with their items"),
        ("imi batch reports/priorities-2026-11-19.md --dry-run", "show which items the file makes"),
        (
            "imi batch reports/priorities-2026-11-19.md --agent claude --parallel 3 --edits",
            "start at most three at once",
        ),
    )
    arguments = (Argument("file", "a file of reports/ or tasks/, or any other", optional=True),)
    options = (
        Option(
            "agent", "the agent program; default: the first that is installed", value="PROGRAM", choices=providers.NAMES
        ),
        Option("parallel", "how many agents at once (default: runs.at_once)", value="N", number=True),
        Option("dry-run", "show the items and start nothing"),
        Option("retry", "also start items that failed or were cancelled"),
        Option("detach", "go on in the background: `imi board` shows it, its log is the orchestrator's"),
        *(one for one in _START.options if one.name in _PASSED),
    )
    dialog_options = ("agent", "parallel", "edits", "plan")
    streams = True

    def refuse(self, context: Context, request: Request) -> None:
        given = request.text("file")
        _parallel(context, request)
        if given is not None:
            _, top = batch_files.top_of(context)
            batch_files.find(context, top, given)

    def consequences(self, context: Context, request: Request) -> list[str]:
        _, top = batch_files.top_of(context)
        file = batch_files.find(context, top, str(request.text("file")))
        number = count(len(file.found.items), "item")
        return [f"starts an agent on each of {number} of {safe(file.name, 120)}", *_preview(file)]

    def run(self, context: Context, request: Request) -> Outcome:
        given = request.text("file")
        if given is None:
            return _list(context)
        self.refuse(context, request)
        repository, top = batch_files.top_of(context)
        file = batch_files.find(context, top, given)
        if request.flag("dry-run"):
            for line, one in zip(_preview(file), file.found.items, strict=True):
                context.emit(line, {"title": one.title, "priority": one.priority, "number": one.number})
            return Outcome()
        if request.flag("detach"):
            return _detach(context, request, file)
        lock = BatchLock(context.database, repository.common_dir, file.name)
        lock.acquire()
        try:
            return _orchestrate(context, request, file)
        finally:
            lock.release()


def _preview(file: BatchFile) -> list[str]:
    return [f"{one.number:>3}  {safe(one.priority, 8):<8}{safe(one.title, 120)}" for one in file.found.items]


def _list(context: Context) -> Outcome:
    _, top = batch_files.top_of(context)
    found = batch_files.list_files(top)
    for one in found:
        what = one.found.problem or count(len(one.found.items), "item")
        done = f", {one.found.done} ticked" if one.found.done else ""
        data: dict[str, object] = {"file": one.name, "title": one.found.title, "problem": one.found.problem}
        data |= {"items": [{"title": each.title, "priority": each.priority} for each in one.found.items]}
        context.emit(f"{safe(one.name, 100):<44}  {safe(what, 100)}{done}", {**data, "kind": one.found.kind})
    empty = "no files: `imi item template` writes a task definition; priorities are reports/priorities-YYYY-MM-DD.md"
    return Outcome([] if found else [empty])


def _parallel(context: Context, request: Request) -> int:
    wanted = request.whole("parallel")
    if wanted is None:
        return max(1, run_limit.at_once(context.connection, context.settings))
    if not 0 < wanted <= _MOST_PARALLEL:
        raise UsageError(f"--parallel takes a number from 1 to {_MOST_PARALLEL}", code="bad-option")
    return wanted


def _detach(context: Context, request: Request, file: BatchFile) -> Outcome:
    """Start the same batch in a process of its own, with the options that were given here or in a dialog."""
    words = ["batch", "--db", context.database, "--repo", context.repository().main_path or context.cwd]
    for name, value in request.values.items():
        if name not in ("file", "detach") and value is not False:
            words += [f"--{name}", *([value] if isinstance(value, str) and value else [])]
            words += [f"{value:g}"] if isinstance(value, float) else []
    words += ["--", file.path]
    lines = [f"{safe(file.name, 120)} goes on in the background: `imi board` shows it"]
    started = subprocess.run(
        # the shell ends at once, so that no dashboard has to wait for the batch
        ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", sys.executable, "-P", "-m", "imi_monitor", *words],
        cwd=context.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=own_environment(),
        check=False,
    )
    return Outcome(lines, {"file": file.name, "pid": int(started.stdout)})


def _orchestrate(context: Context, request: Request, file: BatchFile) -> Outcome:
    """Load the items, run them, and say what became of them."""
    repository = context.repository()
    by = context.agent(Request("batch", {}))
    program = request.text("agent") or next(iter(_START.choices(context, "program")), providers.NAMES[0])
    values = {name: value for name, value in request.values.items() if name in _PASSED}
    values |= {"program": program, "way": "task"}
    checked = Request("start", {**values, "prompt": "x"})
    _START.refuse(context, checked)  # before anything is made

    def load(connection: sqlite3.Connection) -> tuple[list[ItemRow], str]:
        found = batches.load(connection, context.register(repository, connection), file.name, file.found.items, by)
        if request.flag("retry"):
            for one in found:
                if one.status in (board.FAILED, board.CANCELLED):
                    item_moves.move(connection, one.id, board.PENDING, by=by)
            found = batches.load(connection, context.register(repository, connection), file.name, file.found.items, by)
        return found, batches.join_session(connection, found)

    wanted, session = db.transact(context.connection, load)
    home = run_folder.home_of(repository, context.settings.text("runs.home"))
    progress = _Progress(context, home, session, file, repository.home)
    open_ones = [one for one in wanted if one.session_id == session or one.status in (board.PENDING, board.IN_PROGRESS)]
    open_ones = [one for one in open_ones if one.status not in board.OVER]
    progress.begin(len(wanted), len(open_ones))
    with SignalMark() as stop:
        run = BatchRun(
            context, session, open_ones, values, _parallel(context, request), progress.report, progress.write
        )
        whole = run.run(stop)
    return progress.end(run, wanted, stop.signal, whole)


class _Progress:
    """Prints and logs what happens, and writes the state of the batch."""

    def __init__(self, context: Context, home: str, session: str, file: BatchFile, repository: str) -> None:
        self._context = context
        self._home = home
        self._session = session
        self._file = file
        self._linked: set[str] = set()
        now = times.stamp()
        self._about: dict[str, object] = {"status": board.IN_PROGRESS, "startTime": now, "endTime": None}
        self._about |= {
            "targetRepo": repository,
            "file": file.name,
            "branchName": None,
            "prUrl": None,
            "updatedAt": now,
        }
        self._log = os.path.join(home, "logs", "orchestrator-sessions", session)

    def begin(self, total: int, waiting: int) -> None:
        self._say(f"{self._session}: {count(total, 'item')} of {safe(self._file.name, 120)}, {waiting} to do")

    def report(self, item: ItemRow, what: str, detail: str) -> None:
        agent = f"  {safe(item.agent_id, 40)} in {safe(item.worktree_name or '?', 60)}" if item.agent_id else ""
        more = f": {safe(detail, 300)}" if detail else ""
        words = what.replace("_", " ")
        data: dict[str, object] = {"item": item.id, "what": what, "detail": detail or None, "agent": item.agent_id}
        data |= {"worktree_name": item.worktree_name, "run": item.run_id}
        self._say(f"{safe(item.id, 40)}  {words:<11}  {safe(item.title, 60)}{agent}{more}", data)

    def write(self, found: list[ItemRow]) -> None:
        self._about["updatedAt"] = times.stamp()
        state_files.write_batch(self._home, self._session, self._about, found)
        for one in found:
            if one.run_id is not None and one.run_id not in self._linked:
                self._linked.add(one.run_id)
                row = db.read(self._context.connection, runs.by_id, one.run_id)
                if row is not None:
                    job_log.link_orchestrated(row, self._log)

    def end(self, run: BatchRun, wanted: list[ItemRow], number: int, whole: bool) -> Outcome:
        found = [item_lookup.find_item(self._context, one.id) for one in wanted]
        totals = {status: sum(one.status == status for one in found) for status in board.STATUSES}
        good = totals[board.COMPLETED] == len(found)
        self._about |= {"status": board.COMPLETED if good else board.FAILED if whole else board.BLOCKED}
        if whole:
            self._about["endTime"] = times.stamp()
        self.write(found)
        shown = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in totals.items() if number)
        self._say(f"{self._session}: {shown or 'nothing to do'}", {"session": self._session, "items": totals})
        if not whole:
            if not number:
                raise Refused("the batch was cancelled: its agents were ended", code="cancelled")
            return Outcome(exit_status=128 + number)
        return Outcome(exit_status=0 if good else 1)

    def _say(self, line: str, data: dict[str, object] | None = None) -> None:
        at = time_format.clock(times.stamp())
        self._context.emit(f"{at}  {line}", {"at": times.stamp(), "session": self._session, **(data or {})})
        if os.path.isdir(self._log) or _make(self._log):
            run_folder.append_lines(os.path.join(self._log, "orchestrator.log"), [f"[STDOUT] {at}  {line}"])


def _make(folder: str) -> bool:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True


ACTIONS = (BatchAction(),)
