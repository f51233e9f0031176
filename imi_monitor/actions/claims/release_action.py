"""`imi release`: give a claimed worktree back, when nothing uncommitted is left in it.

git takes as long to look at the tree as the registry's room takes to be loaded and opened. Where the name alone tells
the place, both happen at once: here git is started, in `releasing` is what needs the registry.
"""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.model.errors import GitError, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store.claim_history import REPORTABLE_OUTCOMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.layout import RepositoryLocation
    from imi_monitor.store.claims import Claim


class ReleaseAction(Action):
    words = ("release",)
    label = "Release"
    help = "Give a claimed worktree back."
    more = (
        "Only the owner can, and only while the tree has nothing uncommitted (--dirty-ok: leave it as it is for the"
        " next). --force skips that check; it also takes the claim from another owner, who is told why (--reason)."
        " --outcome says what came of the task that it was claimed for (`imi tasks`); with `failed`, --reason says why."
    )
    key = "R"
    arguments = (claim_options.NAME,)
    options = (
        claim_options.AGENT,
        claim_options.EPOCH,
        Option(
            "dirty-ok", "even with uncommitted changes, which stay as they are", overrides=("dirty", "dirty-unknown")
        ),
        Option(
            "force", "even with uncommitted changes; another's claim too (needs --reason)", overrides=("not-owner",)
        ),
        Option("reason", "why, for the owner and the log", value="TEXT", goes_with=("force",)),
        Option("outcome", f"what came of its task: {', '.join(REPORTABLE_OUTCOMES)}", value="OUTCOME"),
    )
    dialog_options = ("dirty-ok", "force", "reason")
    hot = True

    def refuse(self, context: Context, request: Request) -> None:
        claim_options.agent(context, request)
        claim_options.epoch(request)
        claim_options.short_text(request, "reason")
        outcome = request.text("outcome")
        if outcome is not None and outcome not in REPORTABLE_OUTCOMES:
            raise UsageError(
                f"--outcome {safe(outcome, 60)!r} is none: use one of {', '.join(REPORTABLE_OUTCOMES)}",
                code="bad-option",
            )

    def consequences(self, context: Context, request: Request) -> list[str]:
        from imi_monitor.actions.claims import claim_consequences, claim_release

        found, claim = claim_release.look(context, request)
        claim = claim_release.refuse(context, request, found, claim, None)
        return claim_consequences.releasing(context, found, claim, claim_options.agent(context, request))

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        seen: list[tuple[Target, Claim | None, bool]] = []

        def look() -> None:
            from imi_monitor.actions.claims import claim_release

            target, held = claim_release.look(context, request)
            seen.append((target, held, context.trusted(target.repository)))

        unchecked = request.flag("dirty-ok") or request.flag("force")
        place = None if unchecked else _guess(context, request)
        dirty = _early(place, look) if place else None
        if not seen:
            look()
        found, claim, trusted = seen[0]
        if place is None or place.path != found.path or trusted:
            dirty = None  # git looked elsewhere, or without the filters that it may use here
        from imi_monitor.actions.claims import claim_release

        return claim_release.release(context, request, found, claim, dirty)


def _guess(context: Context, request: Request) -> RepositoryLocation | None:
    """Where the worktree most likely is, told by its name without the registry. Only the registry knows."""
    name = request.text("name") or ""
    repository = None if context.explicit_repo or not name or "/" in name else context.find_repository()
    if repository is None:
        return None
    home = repository.home
    for path in (os.path.join(os.path.dirname(home), name), os.path.join(f"{home}.worktrees", name)):
        if os.path.lexists(os.path.join(path, ".git")):
            place = context.place_at(path)
            return place if place and place.repository.common_dir == repository.common_dir else None
    return None


def _early(place: RepositoryLocation, meanwhile: Callable[[], None]) -> bool | None:
    """Whether git calls the tree dirty, asked without trust; None when it cannot tell: it is asked again then."""
    from imi_monitor.git.dirty import is_dirty
    from imi_monitor.git.runner import Git

    try:
        return is_dirty(Git(place.repository.common_dir, place.admin_dir, place.path), meanwhile)
    except GitError:
        return None


ACTIONS = (ReleaseAction(),)
