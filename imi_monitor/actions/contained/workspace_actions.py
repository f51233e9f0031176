"""`imi workspace list|show|deliver|archive|clean|migrate`: contained workspaces as a whole."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.contained import file_place
from imi_monitor.model import contained_names, times
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import count, safe
from imi_monitor.runs.contained import denker_folders, workspace_end, workspace_place
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.store import contained_work, db, runs
from imi_monitor.store.contained_work import ACTIVE, CLEANED, CLEANING, WAITS, WANTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.contained_work import ContainedRow, Delivery

_NAME = Argument("name", "the workspace; default: default", optional=True)


class _WorkspaceAction(Action):
    group = "Agents"
    makes_new = True  # its name is no worktree

    def _path(self, context: Context, request: Request) -> str:
        return workspace_place.path_of(request.text("name"), context.settings.text("contained.path"))


class WorkspaceListAction(_WorkspaceAction):
    words = ("workspace list",)
    label = "Contained workspaces"
    help = "list the contained workspaces, what waits for delivery in them, and those in the trash"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        lives = db.read(context.connection, contained_work.list_lives, ACTIVE, CLEANING, CLEANED)
        rows = [_row(context, life) for life in lives]
        return Outcome(
            [_line(row) for row in rows] or ["no contained workspaces"], {"workspaces": rows, "count": len(rows)}
        )


class WorkspaceShowAction(_WorkspaceAction):
    words = ("workspace show",)
    label = "A contained workspace"
    help = "show where a contained workspace is, its files, its runs and what waits for delivery"
    arguments = (_NAME,)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        path = self._path(context, request)
        life = db.read(context.connection, contained_work.current, path)
        if life is None and not os.path.isdir(path):
            raise Refused(f"there is no workspace at {safe(path)}", code="missing")
        with FileDoor(path, "") as door:
            files = [one.data() for one in door.list_files()]
        waiting = db.read(context.connection, contained_work.list_deliveries, path, WANTED, WAITS)
        working = [
            row for row in db.read(context.connection, runs.list_runs) if workspace_end.workspace_of(row) == path
        ]
        lines = [f"path   {safe(path)}", f"files  {len(files)}"]
        lines += [f"       {safe(str(one['name']))}" for one in files]
        lines += [f"run    {row.short} {safe(row.agent_id)} {row.shown_state}" for row in working if row.is_open]
        lines += [f"wants  {safe(one.name)} to {safe(one.target, 200)} ({_waiting(one.state)})" for one in waiting]
        wanted = [{"name": one.name, "target": one.target, "state": one.state, "why": one.why} for one in waiting]
        open_runs = [row.id for row in working if row.is_open]
        return Outcome(lines, {"path": path, "files": files, "deliveries": wanted, "runs": open_runs})


class WorkspaceDeliverAction(_WorkspaceAction):
    words = ("workspace deliver",)
    label = "Deliver files"
    help = "deliver the files that wait for a person, to where their agent wants them"
    more = (
        "A file that is there is never replaced: the new one becomes `report (1).pdf`. `imi file deliver` delivers one."
    )
    key = "e"
    makes_new = False
    requires = ("delivery",)
    arguments = (Argument("name", "the run, or the workspace; default: default", optional=True),)

    def consequences(self, context: Context, request: Request) -> list[str]:
        path, waiting = self._waiting(context, request)
        lines = [f"{safe(one.name, 60)} goes to {safe(one.target, 300)}" for one in waiting]
        return [*lines, f"{safe(path)} goes to the trash when no agent works in it"]

    def run(self, context: Context, request: Request) -> Outcome:
        path, waiting = self._waiting(context, request)
        who, made, warnings = file_place.agent(context, request), [], []
        for one in waiting:
            try:
                final = workspace_end.deliver_now(context.connection, path, one.name, one.target, who)
            except ImiError as error:
                warnings.append(error.sentence)
                continue
            db.transact(context.connection, contained_work.end_delivery, one.seq, contained_work.DELIVERED, None, final)
            made.append(final)
        workspace_end.clean_if_over(context.connection, path, "its last delivery was made")
        data: dict[str, object] = {"path": path, "delivered": made}
        return Outcome(
            [f"delivered {safe(one, 1000)}" for one in made], data, warnings=warnings, exit_status=int(bool(warnings))
        )

    def _waiting(self, context: Context, request: Request) -> tuple[str, list[Delivery]]:
        """The workspace and what waits in it: of one run, or of all."""
        given = request.text("name")
        row = db.read(context.connection, runs.by_id, given) if given else None
        found = next((one for one in db.read(context.connection, runs.list_runs) if given and one.short == given), row)
        path = (workspace_end.workspace_of(found) if found is not None else None) or self._path(context, request)
        waiting = db.read(context.connection, contained_work.list_deliveries, path, WAITS)
        waiting = [one for one in waiting if found is None or one.run == found.id]
        if not waiting:
            raise Refused(f"no file of {safe(given or path)} waits to be delivered", code="nothing-waits")
        return path, waiting


class WorkspaceCleanAction(_WorkspaceAction):
    words = ("workspace clean",)
    label = "Clean a workspace"
    help = "move a contained workspace into the trash; refused while an agent works in it"
    arguments = (_NAME,)
    options = (Option("drop-deliveries", "also when files wait to be delivered"),)

    def run(self, context: Context, request: Request) -> Outcome:
        path, connection = self._path(context, request), context.connection
        if not os.path.isdir(path):
            raise Refused(f"there is no workspace at {safe(path)}", code="missing")
        owner = workspace_end.claimed_by_others(connection, path, context.agent(request))
        if owner is not None:
            name = safe(os.path.basename(path))
            raise Refused(f"{safe(owner)} has claimed {name}: `imi claims` lists it", code="claimed")
        db.transact(connection, contained_work.open_life, os.path.basename(path), path)
        waiting = db.read(connection, contained_work.list_deliveries, path, WAITS)
        if waiting and not request.flag("drop-deliveries"):
            names = ", ".join(safe(one.name, 60) for one in waiting[:5])
            raise Refused(
                f"{count(len(waiting), 'file')} wait to be delivered ({names}): `imi file deliver NAME`, or --drop-deliveries",
                code="waiting",
            )
        for one in waiting:
            db.transact(connection, contained_work.end_delivery, one.seq, contained_work.DROPPED, "dropped by a person")
        who = context.agent(request)
        if not workspace_end.clean_if_over(connection, path, f"cleaned by {who}", who):
            raise Refused(f"an agent works in {safe(path)}: `imi stop` ends it first", code="in-use")
        life = db.read(connection, contained_work.list_lives, CLEANED)[0]
        line = f"moved {safe(life.name)} into the trash: `imi undo {life.id[:8]}` brings it back"
        return Outcome([line], {"id": life.id, "path": path, "trash": life.trash_path})


class WorkspaceArchiveAction(_WorkspaceAction):
    words = ("workspace archive",)
    label = "Archive a workspace"
    help = "pack a contained workspace into a .tar.gz file; the workspace stays"
    arguments = (_NAME, Argument("file", "the archive; default: NAME.tar.gz in the current folder", optional=True))

    def run(self, context: Context, request: Request) -> Outcome:
        import io
        import tarfile

        path = self._path(context, request)
        target = os.path.join(context.cwd, request.text("file") or f"{os.path.basename(path)}.tar.gz")
        with FileDoor(path, "") as door:
            contents = [(name, door.read(name)) for name in door.names()]
        try:
            with tarfile.open(target, "x:gz") as archive:
                for name, data in contents:
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = len(data), 0o600
                    archive.addfile(info, io.BytesIO(data))
        except FileExistsError as error:
            raise Refused(f"{safe(target)} is there already: name another file", code="exists") from error
        except OSError as error:
            raise Refused(f"{safe(target)} cannot be written: {error.strerror}", code="unwritable") from error
        return Outcome(
            [f"packed {count(len(contents), 'file')} into {safe(target)}"], {"path": target, "files": len(contents)}
        )


class WorkspaceMigrateAction(_WorkspaceAction):
    words = ("workspace migrate",)
    label = "Migrate older workspaces"
    help = "move the files of Denker's older folders (denker_<digits>) into the default workspace"
    more = "All levels become one; the newest of several files with one name keeps it; no file is lost."
    options = (Option("dry-run", "only list the folders", aliases=("n",)),)

    def run(self, context: Context, request: Request) -> Outcome:
        root = workspace_place.root(context.settings.text("contained.path"))
        if request.flag("dry-run"):
            found = denker_folders.find(root)
            return Outcome([safe(one) for one in found] or ["no older folders"], {"folders": found})
        path = os.path.join(root, contained_names.DEFAULT)
        who = file_place.agent(context, request)
        done = denker_folders.migrate(context.connection, root, path, who)
        lines = [f"moved {safe(name)}" for name in done.moved] + [f"trash  {safe(one)}" for one in done.trash]
        warnings = [safe(one, 300) for one in done.left]
        data: dict[str, object] = {"moved": list(done.moved), "trash": list(done.trash), "left": list(done.left)}
        return Outcome(lines or ["no older folders"], data, warnings=warnings, exit_status=1 if warnings else 0)


ACTIONS = (
    WorkspaceListAction(),
    WorkspaceShowAction(),
    WorkspaceDeliverAction(),
    WorkspaceArchiveAction(),
    WorkspaceCleanAction(),
    WorkspaceMigrateAction(),
)


def _row(context: Context, life: ContainedRow) -> dict[str, object]:
    files: int | None = None
    try:
        with FileDoor(life.path if life.state != CLEANED else life.trash_path or "", "") as door:
            files = len(door.names())
    except (ImiError, OSError):
        files = None
    waiting = (
        db.read(context.connection, contained_work.list_deliveries, life.path, WAITS) if life.state != CLEANED else []
    )
    return {
        "id": life.id,
        "name": life.name,
        "kind": "contained",
        "state": life.state,
        "path": life.path if life.state != CLEANED else life.trash_path,
        "files": files,
        "waiting": [one.name for one in waiting],
        "created_at": life.created_at,
        "ended_at": life.ended_at,
        "why": life.why,
    }


def _line(row: dict[str, object]) -> str:
    waiting = row["waiting"]
    wants = f", {count(len(waiting), 'file')} wait to be delivered" if isinstance(waiting, list) and waiting else ""
    files = "? files" if row["files"] is None else count(int(str(row["files"])), "file")
    when = times.age_of(str(row["ended_at"] or row["created_at"]))
    name, path = safe(str(row["name"])), safe(str(row["path"]))
    return f"{str(row['id'])[:8]}  {name:<12}  {row['state']:<8}  {when:>4}  {files}{wants}  {path}"


def _waiting(state: str) -> str:
    return "waits for you: imi file deliver" if state == WAITS else "when the run is completed"
