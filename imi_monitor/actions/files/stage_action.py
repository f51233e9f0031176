"""`imi stage`, `imi unstage` and `imi discard`: acts on the changed files of a worktree, or on one hunk of a file."""

from __future__ import annotations

import shlex

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome, Preview
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.actions.files.file_acts import HOW, FileAct, Verb
from imi_monitor.actions.status import worktree_git
from imi_monitor.git import git_status
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatusEntry
    from imi_monitor.git.runner import Git

_SHOWN = 12  # files that a preview lists
_NAME = Argument("name", "the worktree, as `imi list` shows it")
_HUNK = Option("hunk", "only this hunk of the file, by its id in `imi diff --json`", value="ID")
_AS_SHOWN = Option("shown", "only if the file still has this id of `imi diff --json`", value="ID")
_FORCE = Option(
    "force",
    "although another owner has claimed the worktree",
    overrides=("claimed",),
    label="Despite another owner's claim",
)


class FileAction(Action):
    """The common part: which files are meant, and that the worktree is the caller's to change."""

    group = "Changes"
    in_menus = True
    requires = ("folder",)
    dialog_options: tuple[str, ...] = ("path", "force")

    def verb(self, request: Request) -> Verb:
        raise NotImplementedError

    def applies(self, entry: GitStatusEntry, verb: Verb) -> bool:
        raise NotImplementedError

    def preview(self, context: Context, request: Request) -> Preview:
        """The files that the act would change now; it then acts on those alone."""
        try:
            _, _, paths = self._find(context, request)
        except ImiError as error:
            return Preview([], error)
        return Preview(self._lines(request, paths), bound={"path": paths})

    def consequences(self, context: Context, request: Request) -> list[str]:
        return self._lines(request, self._find(context, request)[2])

    def _lines(self, request: Request, paths: list[str]) -> list[str]:
        hunk = "one hunk of " if request.text("hunk") else ""
        more = [f"… and {len(paths) - _SHOWN} more"] if len(paths) > _SHOWN else []
        return [f"{self.words[0]}s {hunk}{safe(path, 200)}" for path in paths[:_SHOWN]] + more

    def run(self, context: Context, request: Request) -> Outcome:
        target, git, paths = self._find(context, request)
        verb = self.verb(request)
        act = FileAct(context, target, git, verb, claim_options.agent(context, request))
        identity = act.run(paths, hunk=request.text("hunk"), shown=request.text("shown"))
        what = safe(paths[0], 200) if len(paths) == 1 else count(len(paths), "file")
        hunk = "one hunk of " if request.text("hunk") else ""
        line = f"{HOW[verb]} {hunk}{what} in {safe(target.name)}"
        data: dict[str, object] = {
            "worktree_name": target.name,
            "act": HOW[verb],
            "files": paths,
            "hunk": request.text("hunk"),
            "trash_id": identity,
        }
        return Outcome([f"{line}; `imi undo {identity}` restores it" if identity else line], data)

    def _find(self, context: Context, request: Request) -> tuple[Target, Git, list[str]]:
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        git = worktree_git.git_in(context, target)
        git.trusted = git.trusted and target.kind != "review"  # it would run programs of the pull request
        _refuse_claimed(context, request, target)
        given = paths_of(request)
        if (request.text("hunk") or request.text("shown")) and len(given) != 1:
            raise UsageError("--hunk and --shown are about one file: name exactly one", code="bad-option")
        verb = self.verb(request)
        status = git_status.read_status(git)
        found = _chosen([entry for entry in status.entries if self.applies(entry, verb)], given)
        if not found:
            raise Refused(f"{safe(target.name)} has no file to {self.words[0]}", code="unchanged")
        return target, git, found


class StageAction(FileAction):
    words = ("stage",)
    label = "Stage"
    help = "put changes of files into the index, as they are now"
    more = "Without a path: all changed and new files. Refused while another git has locked the index."
    examples = (("imi stage feat-user-auth src/api.py", "stage one file"),)
    arguments = (_NAME, Argument("path", "files or folders, from the worktree's top (default: all)", rest=True))
    options = (_HUNK, _AS_SHOWN, _FORCE, claim_options.AGENT)

    def verb(self, request: Request) -> Verb:
        return "stage"

    def applies(self, entry: GitStatusEntry, verb: Verb) -> bool:
        return entry.tree != "."


class UnstageAction(FileAction):
    words = ("unstage",)
    label = "Unstage"
    help = "take changes of files out of the index; the files themselves stay"
    more = """Without a path: everything that is staged. Lines that are in the index alone, neither committed nor in the
    file, are kept in the trash: `imi undo` stages them again."""
    examples = (("imi unstage feat-user-auth", "unstage everything"),)
    arguments = StageAction.arguments
    options = StageAction.options

    def verb(self, request: Request) -> Verb:
        return "unstage"

    def applies(self, entry: GitStatusEntry, verb: Verb) -> bool:
        return entry.index not in ".?"


class DiscardAction(FileAction):
    words = ("discard",)
    label = "Discard"
    help = "discard changes in files; `imi undo` restores them"
    more = """A file becomes what is staged of it, and a new file goes. With --staged it becomes what the last commit has of it.
    What was there is kept in the trash, byte for byte. A file that changed since it was shown is left alone."""
    examples = (
        ("imi discard feat-user-auth src/api.py", "take back what is not staged of one file"),
        ("imi discard --staged feat-user-auth .", "go back to the last commit in all files"),
    )
    arguments = (_NAME, Argument("path", "files or folders, from the worktree's top; a dot: all", rest=True))
    options = (Option("staged", "what is staged as well", label="What is staged as well"), *StageAction.options)
    dialog_options = ("path", "staged", "force")
    dangerous = True

    def verb(self, request: Request) -> Verb:
        return "discard-staged" if request.flag("staged") else "discard"

    def applies(self, entry: GitStatusEntry, verb: Verb) -> bool:
        return entry.tree != "." or verb == "discard-staged"

    def _find(self, context: Context, request: Request) -> tuple[Target, Git, list[str]]:
        if not paths_of(request):
            raise UsageError("name the files to discard; a dot stands for all of them", code="missing")
        return super()._find(context, request)


def _refuse_claimed(context: Context, request: Request, target: Target) -> None:
    claim = ownership.claim_of(context, target)
    if claim is not None and not request.flag("force") and ownership.is_anothers(claim, context.agent(request)):
        raise Refused(
            advised(
                ownership.held_by(claim), "--force changes its files anyway", "ask the owner, or tick the box above"
            ),
            code="claimed",
        )


def paths_of(request: Request) -> list[str]:
    """The paths of the request; a dialog gives them as one text, quoted as in a shell."""
    typed = request.text("path")
    try:
        paths = shlex.split(typed) if typed is not None else request.rest("path")
    except ValueError as error:
        raise UsageError(f"the paths cannot be read: {error}", code="bad-paths") from error
    return [path.rstrip("/") for path in paths]


def _chosen(entries: list[GitStatusEntry], given: list[str]) -> list[str]:
    """The paths of these entries that are meant; a renamed file stands for both of its names. Refused for one that is not."""
    found: dict[str, None] = {}
    for path in given or ["."]:
        fitting = [entry for entry in entries if path == "." or entry.path == path or entry.path.startswith(f"{path}/")]
        if not fitting and path != ".":
            raise Refused(f"{safe(path)} has no such change: see `imi diff`", code="unchanged")
        for entry in fitting:
            if entry.path.endswith("/"):
                raise Refused(f"{safe(entry.path)} is another repository: run git in it", code="submodule")
            found[entry.path] = None
            if entry.origin is not None and "R" in (entry.index, entry.tree):
                found[entry.origin] = None
    return list(found)


ACTIONS = (StageAction(), UnstageAction(), DiscardAction())
