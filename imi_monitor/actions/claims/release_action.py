"""`imi release`: release a claimed worktree, if it has no uncommitted changes.

git needs as long for the tree as the registry's modules need to be imported and the file to be opened. Where the name
alone gives the worktree's place, both run at the same time: this module starts git, `claim_release` uses the registry.
"""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Option, Outcome, Tool
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
    group = "Claims"
    label = "Release"
    examples = (("imi release feat-user-auth --outcome completed", "release it and record that the task is done"),)
    help = "release a claimed worktree"
    more = (
        "Only the owner can, and only while nothing is uncommitted in the tree (--dirty-ok leaves the changes for the next"
        " owner). --force skips that check; it also ends the claim of another owner, who sees the --reason."
        " --outcome reports the result of the claim's task (`imi tasks`); with `failed`, --reason says why."
    )
    key = "R"
    key_bar = 85
    requires = ("claim",)
    for_other_homes = True
    arguments = (claim_options.NAME,)
    options = (
        claim_options.AGENT,
        claim_options.SESSION,
        claim_options.EPOCH,
        Option(
            "dirty-ok",
            "release despite uncommitted changes, which stay as they are",
            overrides=("dirty", "dirty-unknown"),
            label="Release with uncommitted changes",
        ),
        Option(
            "force",
            "release despite uncommitted changes, even another owner's claim (needs --reason)",
            overrides=("not-owner",),
            label="Release another owner's claim",
        ),
        Option("reason", "the reason, for the owner and the log", value="TEXT", goes_with=("force",)),
        Option("outcome", "the result of the claim's task", value="OUTCOME", choices=tuple(REPORTABLE_OUTCOMES)),
    )
    dialog_options = ("dirty-ok", "force", "reason")
    tools = (Tool("release", options=("epoch", "dirty-ok", "outcome", "reason")),)
    hot = True
    tolerates = ("ui", "notify", "commands")

    def refuse(self, context: Context, request: Request) -> None:
        claim_options.agent(context, request)
        claim_options.epoch(request)
        claim_options.caller(request)
        claim_options.short_text(request, "reason")
        outcome = request.text("outcome")
        if outcome is not None and outcome not in REPORTABLE_OUTCOMES:
            raise UsageError(
                f"--outcome {safe(outcome, 60)!r} is unknown: use one of {', '.join(REPORTABLE_OUTCOMES)}",
                code="bad-option",
            )

    def consequences(self, context: Context, request: Request) -> list[str]:
        there = claim_options.elsewhere(context, request)
        if there is not None:
            from imi_monitor.actions.team import remote_claim

            return remote_claim.release_consequences(context, request, there)
        from imi_monitor.actions.claims import claim_consequences, claim_release

        found, claim = claim_release.find(context, request)
        claim = claim_release.refuse(context, request, found, claim, None)
        return claim_consequences.of_release(context, found, claim, claim_options.agent(context, request))

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        there = claim_options.elsewhere(context, request)
        if there is not None:
            from imi_monitor.actions.team import remote_claim

            return remote_claim.release(context, request, there)
        seen: list[tuple[Target, Claim | None, bool]] = []

        def find() -> None:
            from imi_monitor.actions.claims import claim_release

            target, held = claim_release.find(context, request)
            seen.append((target, held, context.trusted(target.repository)))

        unchecked = request.flag("dirty-ok") or request.flag("force")
        place = None if unchecked else _guess_place(context, request)
        dirty = _is_dirty_early(place, find) if place else None
        if not seen:
            find()
        found, claim, trusted = seen[0]
        if place is None or place.path != found.path or trusted:
            dirty = None  # git checked another folder, or without the filters that a trusted repository may use
        from imi_monitor.actions.claims import claim_release

        return claim_release.release(context, request, found, claim, dirty)


def _guess_place(context: Context, request: Request) -> RepositoryLocation | None:
    """Return where the worktree most likely is, by its name and without the registry, which alone is certain."""
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


def _is_dirty_early(place: RepositoryLocation, meanwhile: Callable[[], None]) -> bool | None:
    """Whether git, run as for an untrusted repository, finds changes; None when git fails and must be run again."""
    from imi_monitor.git.dirty import is_dirty
    from imi_monitor.git.runner import Git

    try:
        return is_dirty(Git(place.repository.common_dir, place.admin_dir, place.path), meanwhile)
    except GitError:
        return None


ACTIONS = (ReleaseAction(),)
