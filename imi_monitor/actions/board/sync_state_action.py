"""`imi sync-state`: bring sessions and items back from their state files."""

from __future__ import annotations

import os
import stat

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.model import state_file
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.runs import run_folder
from imi_monitor.store import db, events, state_rows
from imi_monitor.store.state_rows import StateCount

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_MOST_BYTES = 1 << 20
_MOST_FILES = 500  # of one session
_PREFIX = "session-"


class SyncStateAction(Action):
    words = ("sync-state",)
    group = "Board"
    label = "Read state files"
    help = "bring sessions and items back from the state files in .compound-state/"
    more = """A row that is newer than its file stays; the same files give the same rows again and again. It also reads the
    files of be-agents-service. imi writes them by itself: when a run starts, when it ends, and while a batch is under way."""
    examples = (
        ("imi sync-state --all", "read all sessions of this repository, for example after its registry was lost"),
    )
    arguments = (Argument("session", "one session: session-1770537842 (default: the newest)", optional=True),)
    options = (
        Option("all", "all sessions", aliases=("a",)),
        Option("from", "the folder that holds them, instead of this repository's", value="DIR"),
    )

    def run(self, context: Context, request: Request) -> Outcome:
        folders = _folders(context, request)
        repository = context.find_repository()
        done, problems = StateCount(), []
        for folder in folders:
            state = state_file.read_session(os.path.basename(folder), _texts(folder))
            problems += [f"{safe(state.name, 80)}: {safe(one, 120)}" for one in state.problems]

            def put(
                connection: sqlite3.Connection, state: state_file.SessionFiles = state, at: str = folder
            ) -> StateCount:
                name = None if repository is None else context.register(repository, connection)
                changed = state_rows.store(connection, state, at, name)
                if changed.items or changed.sessions:
                    data: dict[str, object] = {"session": state.name, "items": changed.items}
                    events.record(connection, "state.synced", name, data={**data, "sessions": changed.sessions})
                return changed

            changed = db.transact(context.connection, put)
            done.items += changed.items
            done.sessions += changed.sessions
        lines = [
            f"{count(len(folders), 'session folder')}: {count(done.sessions, 'session')} and"
            f" {count(done.items, 'item')} brought up to date"
        ]
        data: dict[str, object] = {"folders": len(folders), "sessions": done.sessions, "items": done.items}
        return Outcome(lines, {**data, "problems": problems}, warnings=problems)


def _folders(context: Context, request: Request) -> list[str]:
    """The session folders that are meant, the oldest first."""
    given, wanted = request.text("from"), request.text("session")
    if wanted is not None and request.flag("all"):
        raise UsageError("give one session or --all, not both", code="bad-option")
    home = os.path.join(context.cwd, given) if given is not None else _home(context)
    found = _sessions_in(home)
    if wanted is not None:
        found = [one for one in found if os.path.basename(one) == wanted]
    if not found:
        what = f"no session {safe(wanted, 80)}" if wanted is not None else "no state files"
        raise Refused(f"there are {what} in {safe(home, 200)}: --from DIR names another folder", code="no-state")
    return found if request.flag("all") or wanted is not None else found[-1:]


def _home(context: Context) -> str:
    repository = context.repository()
    home = run_folder.home_of(repository, context.settings.text("runs.home"))
    return os.path.join(home, state_file.FOLDER)


def _sessions_in(folder: str) -> list[str]:
    """Session folders in a folder, in its `.compound-state`, or the folder itself."""
    if os.path.basename(os.path.normpath(folder)).startswith(_PREFIX):
        return [os.path.normpath(folder)]
    for base in (folder, os.path.join(folder, state_file.FOLDER)):
        try:
            names = os.listdir(base)
        except OSError:
            continue
        found = [os.path.join(base, one) for one in names if one.startswith(_PREFIX)]
        if found:
            return sorted((one for one in found if os.path.isdir(one)), key=_age)
    return []


def _age(folder: str) -> tuple[int, str]:
    number = os.path.basename(folder).removeprefix(_PREFIX)
    return int(number) if number.isdecimal() and number.isascii() and len(number) < 16 else 0, folder


def _texts(folder: str) -> dict[str, str]:
    """The texts of the state files of a session, by their names without `.json`; what is no plain file is left out."""
    try:
        names = sorted(one for one in os.listdir(folder) if one.endswith(".json") and not one.startswith("."))
    except OSError as error:
        raise ImiError(f"{safe(folder, 200)} cannot be read: {error.strerror}", code="unreadable") from error
    found = {}
    for name in names[:_MOST_FILES]:
        text = _read(os.path.join(folder, name))
        if text is not None:
            found[name.removesuffix(".json")] = text
    return found


def _read(path: str) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_BYTES:
                return None
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


ACTIONS = (SyncStateAction(),)
