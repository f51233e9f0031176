"""Install, status and uninstall of what imi adds to the settings of agent programs: its hooks, and its tools.

All files are parsed before the first one changes; `settings_installation` edits one byte for byte.
"""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.hooks import settings_changes
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.hooks.settings_installation import SettingsInstallation

USER, PROJECT = "user", "project"
AGENT = Argument("agent", "claude, codex, gemini or opencode (default: all that were used here)", optional=True)
DRY = Option("dry-run", "only show what would change in which file")


class SettingsPart:
    """One thing that imi adds to settings files."""

    what = ""  # `hooks`
    rows = ""  # the name of the rows of its status in JSON

    def programs(self) -> ModuleType:
        """The module that has the NAMES of the programs that can have it, and finds those `named`, or raises."""
        raise NotImplementedError

    def settings(self, context: Context, request: Request) -> Sequence[SettingsInstallation]:
        """The settings files that the request names; empty if no program was used here."""
        raise NotImplementedError

    def places(self, context: Context, root: str | None) -> Iterator[tuple[str, str, Callable[[], str]]]:
        """(program, scope, what finds its file) of every place; finding is Refused where the program has none."""
        raise NotImplementedError

    def installation(self, agent: str, path: str) -> SettingsInstallation:
        raise NotImplementedError

    def prepare(self, context: Context, *, changes: bool) -> None:
        """Make what an installation needs beside the files; `changes`: whether one of them changes."""

    def clean_up(self) -> None:
        """Delete what is no longer needed after the last removal."""

    def notes(self, request: Request) -> list[str]:
        """Return what else the user has to do."""
        return []


class _PartAction(Action):
    group = "Agents"
    makes_new = True  # its argument names an agent program, not a worktree
    recovers = False  # it needs no registry
    part: SettingsPart

    def choices(self, context: Context, name: str) -> list[str]:
        return list(self.part.programs().NAMES) if name == "agent" else []

    def refuse(self, context: Context, request: Request) -> None:
        self.part.programs().named(request.text("agent"))
        if request.text("scope") not in (None, USER, PROJECT):
            raise UsageError(
                f"--scope {safe(request.text('scope') or '', 40)!r} is neither user nor project", code="bad-scope"
            )

    def _settings(self, context: Context, request: Request) -> Sequence[SettingsInstallation]:
        found = self.part.settings(context, request)
        if not found:
            raise Refused(
                "claude, codex, gemini and opencode were not used here yet: name one of them", code="no-agents"
            )
        return found


class InstallPartAction(_PartAction):
    def consequences(self, context: Context, request: Request) -> list[str]:
        return [f"{setting.path}: {setting.state()}" for setting in self._settings(context, request)]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        what, plans = f"imi's {self.part.what}", []
        for each in self._settings(context, request):
            each.refuse_foreign()
            base = each.content_without()
            plans.append((each, each.is_installed(), base, *each.content_with(base)))
        if not request.flag("dry-run"):
            self.part.prepare(context, changes=not all(done for _, done, *_ in plans))
        results = []
        for each, done, base, after, record in plans:
            if not done and not request.flag("dry-run"):
                each.install(base, after, record)
            message = f"has {what} already" if done else f"{settings_changes.tense(request, 'gets', 'has')} {what}"
            results.append(settings_changes.result(each, message, each.data if done else after, request))
        return settings_changes.outcome(results, self.part.notes(request))


class UninstallPartAction(_PartAction):
    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        return settings_changes.outcome(remove(self.part, self._settings(context, request), request), [])


class PartStatusAction(_PartAction):
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        from imi_monitor.actions.hooks.settings_installation import NOT

        context.open_known_repositories()  # a state may run the agent program
        place = context.place()
        rows = [
            {"agent": agent, "scope": scope, "state": _state(self.part, agent, path), "path": path}
            for agent, scope, find in self.part.places(context, place.path if place else None)
            if (path := _path(find)) is not None
        ]
        shown = [one for one in rows if one["scope"] == USER or one["state"] != NOT]
        lines = [
            f"{one['agent']:<8}  {one['scope']:<7}  {one['state']:<19}  {safe(str(one['path']), 1000)}" for one in shown
        ]
        return Outcome(lines, {self.part.rows: shown, "count": len(shown)})


def remove(part: SettingsPart, settings: Sequence[SettingsInstallation], request: Request) -> list[dict[str, object]]:
    """Remove the part from these files; a dry run only says what would change."""
    from imi_monitor.actions.hooks.settings_installation import NOT

    plans = []
    for each in settings:
        each.refuse_foreign()
        plans.append((each, each.state() != NOT, each.content_without()))
    results = []
    for each, there, after in plans:
        if not request.flag("dry-run"):
            each.uninstall(after) if there else each.forget()  # it was removed by hand
        lost = f"{settings_changes.tense(request, 'loses', 'has lost')} imi's {part.what}"
        message = lost if there else f"has no imi {part.what}"
        results.append(settings_changes.result(each, message, after if there else each.data, request))
    if not request.flag("dry-run"):
        part.clean_up()
    return results


def _path(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except Refused:
        return None


def _state(part: SettingsPart, agent: str, path: str) -> str:
    """A file that cannot be parsed has the error as its state."""
    try:
        return part.installation(agent, path).state()
    except ImiError as error:
        return error.sentence
