"""`imi file list|read|write|edit|find|history|deliver`: the files of a contained workspace, by plain names."""

from __future__ import annotations

import os
import sys

from imi_monitor.actions.action import Action, Argument, Option, Outcome, Tool
from imi_monitor.actions.contained import file_place
from imi_monitor.model import amounts, roles, times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.runs.agent_variables import PLACE_VARIABLE, REQUESTS_VARIABLE, RUN_FOLDER_VARIABLE
from imi_monitor.runs.contained import file_delivery, request_folder, workspace_end
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.store import contained_work, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.contained.file_door import Written

_NAME = Argument("name", "the file's plain name, such as report.md")
_HISTORY_LENGTH = 50
_LARGEST_INPUT = 64 << 20


class _FileAction(Action):
    group = "Agents"
    makes_new = True  # its name is a file, not a worktree
    recovers = False  # inside of a wall there is no registry
    tolerates = ("ui", "notify", "commands")


class FileListAction(_FileAction):
    words = ("file list",)
    label = "Files of a workspace"
    help = "list the files of a contained workspace with their authors"
    options = (file_place.WORKSPACE,)
    tools = (Tool("file_list", inside=PLACE_VARIABLE),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        place = file_place.path(context, request)
        with FileDoor(place, "") as door:
            found = door.list_files()
        width = max((len(one.name) for one in found), default=0)
        lines = [
            f"{safe(one.name):<{width}}  {amounts.size(one.size):>8}  {times.age_of(one.modified_at):>4}"
            f"  {safe(', '.join(one.agents), 80)}"
            for one in found
        ]
        return Outcome(
            lines or ["no files"], {"path": place, "files": [one.data() for one in found], "count": len(found)}
        )


class FileReadAction(_FileAction):
    words = ("file read",)
    label = "Read a file"
    help = "print a file of a contained workspace"
    arguments = (_NAME,)
    options = (file_place.WORKSPACE,)
    tools = (Tool("file_read", inside=PLACE_VARIABLE),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        place = file_place.path(context, request)
        with FileDoor(place, "") as door:
            text = door.read(str(request.text("name"))).decode("utf-8", "replace")
        return Outcome(
            text.split("\n")[: -1 if text.endswith("\n") else None], {"name": request.text("name"), "content": text}
        )


class FileWriteAction(_FileAction):
    words = ("file write",)
    label = "Write a file"
    help = "write a file of a contained workspace, from --content or the standard input"
    examples = (("imi file write report.md --content '# Report'", "write a file with this content"),)
    arguments = (_NAME,)
    options = (
        Option("content", "the whole content; - or nothing: the standard input", value="TEXT"),
        file_place.WORKSPACE,
    )
    tools = (Tool("file_write", needs=("content",), inside=PLACE_VARIABLE),)

    def run(self, context: Context, request: Request) -> Outcome:
        place, who = file_place.path(context, request), file_place.agent(context, request)
        name = str(request.text("name"))
        file_place.make(place)
        with FileDoor(place, who) as door:
            roles.check(file_place.role(), roles.EDIT if name in door.names() else roles.CREATE)
            written = door.write(name, _content(request))
        file_place.record(context, place, written, who)
        return _written(place, written)


class FileEditAction(_FileAction):
    words = ("file edit",)
    label = "Edit a file"
    help = "replace a text that a file of a contained workspace has exactly once"
    arguments = (_NAME,)
    options = (
        Option("old", "the text to replace", value="TEXT"),
        Option("new", "the text in its place", value="TEXT"),
        file_place.WORKSPACE,
    )
    tools = (Tool("file_edit", needs=("old", "new"), inside=PLACE_VARIABLE),)

    def run(self, context: Context, request: Request) -> Outcome:
        old, new = request.text("old"), request.text("new")
        if old is None or new is None:
            raise UsageError("imi file edit needs --old TEXT and --new TEXT", code="missing")
        roles.check(file_place.role(), roles.EDIT)
        place, who = file_place.path(context, request), file_place.agent(context, request)
        with FileDoor(place, who) as door:
            written = door.edit(str(request.text("name")), old, new)
        file_place.record(context, place, written, who)
        return _written(place, written)


class FileFindAction(_FileAction):
    words = ("file find",)
    label = "Find in files"
    help = "list the lines of a contained workspace's files that contain a text"
    arguments = (Argument("text", "the text to find; upper and lower case are equal"),)
    options = (file_place.WORKSPACE,)
    tools = (Tool("file_find", inside=PLACE_VARIABLE),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        with FileDoor(file_place.path(context, request), "") as door:
            found = door.find(str(request.text("text")))
        lines = [f"{safe(name)}:{number}: {safe(line, 300)}" for name, number, line in found]
        data = [{"name": name, "line": number, "text": line[:2000]} for name, number, line in found]
        return Outcome(lines or ["not found"], {"found": data, "count": len(data)})


class FileHistoryAction(_FileAction):
    words = ("file history",)
    label = "History of files"
    help = "list what was done to the files of a contained workspace, and by which agent"
    more = "What the door wrote, delivered or refused. What an agent's own shell wrote is in the folder and not in this list."
    arguments = (Argument("name", "one file only", optional=True),)
    options = (file_place.WORKSPACE,)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        place = file_place.path(context, request)
        acts = db.read(context.connection, contained_work.history, place, request.text("name"), _HISTORY_LENGTH)
        lines = [
            f"{one.at[:19].replace('T', ' ')}  {one.op:<9}  {safe(one.name, 60)}  {safe(one.agent_id or '?', 40)}"
            f"{f'  to {safe(one.target, 200)}' if one.target else ''}{f'  {safe(one.why, 200)}' if one.why else ''}"
            for one in acts
        ]
        fields = contained_work.LoggedAct.columns.split(", ")[1:]
        data = [{name: getattr(one, name) for name in fields} for one in acts]
        return Outcome(lines or ["nothing was done yet"], {"path": place, "history": data, "count": len(data)})


class FileDeliverAction(_FileAction):
    words = ("file deliver",)
    label = "Deliver a file"
    help = "move a finished file of a contained workspace to where it is wanted"
    more = """
    From outside it happens at once. Inside of a contained run it is recorded, and happens when the run is completed: if the place
    was given with `imi start --deliver`, or lies below `contained.deliver_to`; else it waits for you, and this command without
    DEST delivers it. A file that is there is never replaced: the new one becomes `report (1).pdf`.
    """
    examples = (("imi file deliver report.pdf ~/Downloads/", "into a folder, under its own name"),)
    arguments = (_NAME, Argument("dest", "a path or a folder; default: where the agent wanted it", optional=True))
    options = (file_place.WORKSPACE,)
    tools = (
        Tool(
            "deliver",
            help="have a finished file delivered to where the user wants it, once the work is completed",
            inside=PLACE_VARIABLE,
        ),
    )

    def run(self, context: Context, request: Request) -> Outcome:
        roles.check(file_place.role(), roles.DELIVER)
        place, name = file_place.path(context, request), str(request.text("name"))
        if file_place.is_inside():
            return _ask(place, name, request.text("dest"))
        wanted = request.text("dest")
        waiting = [
            one
            for one in db.read(context.connection, contained_work.list_deliveries, place, contained_work.WAITS)
            if one.name == name
        ]
        if wanted is None and not waiting:
            raise UsageError(f"say where {safe(name)} is to go: imi file deliver {safe(name)} DEST", code="missing")
        target = file_delivery.target_of(name, wanted, context.cwd) if wanted is not None else waiting[0].target
        who = file_place.agent(context, request)
        final = workspace_end.deliver_now(context.connection, place, name, target, who)
        for one in waiting:
            db.transact(context.connection, contained_work.end_delivery, one.seq, contained_work.DELIVERED, None, final)
        if waiting:
            workspace_end.clean_if_over(context.connection, place, "its last delivery was made")
        return Outcome([f"delivered {safe(name)} to {safe(final, 1000)}"], {"name": name, "path": final})


class ResearchAction(_FileAction):
    words = ("file research",)
    label = "Research of a run"
    help = "list or print what the agent of a run has fetched from the web"
    more = "The files of the run folder's search_results, which imi writes from what the agent's own tools bring."
    arguments = (Argument("name", "the file to print; default: list all", optional=True),)
    tools = (Tool("read_research_files", inside=RUN_FOLDER_VARIABLE),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        folder = os.environ.get(RUN_FOLDER_VARIABLE)
        if not folder:
            raise Refused(
                "you are not in a run: `imi runs` shows their folders, with search_results in each", code="no-run"
            )
        name = request.text("name")
        with FileDoor(os.path.join(folder, "search_results"), "") as door:
            if name is None:
                names = door.names()
                return Outcome([safe(one, 200) for one in names] or ["nothing was fetched yet"], {"files": names})
            text = door.read(name).decode("utf-8", "replace")
        return Outcome(text.split("\n"), {"name": name, "content": text})


ACTIONS = (
    FileListAction(),
    FileReadAction(),
    FileWriteAction(),
    FileEditAction(),
    FileFindAction(),
    FileHistoryAction(),
    FileDeliverAction(),
    ResearchAction(),
)


def _content(request: Request) -> bytes:
    given = request.text("content")
    if given is not None and given != "-":
        return given.encode("utf-8", "surrogateescape")
    if sys.stdin.isatty():
        raise UsageError("give the content: --content TEXT, or on the standard input", code="missing")
    return sys.stdin.buffer.read(_LARGEST_INPUT)


def _written(place: str, written: Written) -> Outcome:
    what = "wrote" if written.created else "changed"
    data: dict[str, object] = {
        "name": written.name,
        "path": os.path.join(place, written.name),
        "size": written.size,
        "sha256": written.sha256,
        "created": written.created,
    }
    return Outcome([f"{what} {safe(written.name)} ({amounts.size(written.size)})"], data)


def _ask(place: str, name: str, wanted: str | None) -> Outcome:
    """Record inside of a run where a file is to go."""
    if wanted is None:
        raise UsageError(f"say where {safe(name)} is to go", code="missing")
    with FileDoor(place, "") as door:
        door.read(name)
    target = wanted  # its `~` is expanded outside: a wall may have a home folder of its own
    if not os.path.isabs(target) and not target.startswith("~/"):
        raise UsageError("give the whole path of the place, such as ~/Downloads/report.pdf", code="bad-path")
    target = os.path.join(target, name) if target.endswith("/") else os.path.normpath(target)
    requests = os.environ.get(REQUESTS_VARIABLE)
    if not requests:
        raise Refused("this run takes no requests: ask the person to deliver the file", code="no-requests")
    request_folder.ask(requests, "deliver", name, target=target)
    line = (
        f"recorded: {safe(name)} goes to {safe(target, 500)} when the run is completed, if the person allows that place"
    )
    return Outcome([line], {"name": name, "target": target, "state": "wanted"})
