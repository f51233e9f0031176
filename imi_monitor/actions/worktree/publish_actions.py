"""`imi commit`, `imi push` and `imi propose`: what is left to do after an agent is done."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.actions.status import worktree_git
from imi_monitor.git import commit_signature, git_status, layout, publish, refs, safety
from imi_monitor.model import remote_address, times
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe
from imi_monitor.store import commit_records, db
from imi_monitor.store.commit_records import MadeCommit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git

_NAME = Argument("name", "the worktree, as `imi list` shows it")
_FORCE = Option(
    "force",
    "although another owner has claimed the worktree",
    overrides=("claimed",),
    label="Despite another owner's claim",
)
_SHOWN = 10


class CommitAction(Action):
    words = ("commit",)
    group = "Changes"
    label = "Commit"
    help = "commit what is staged in a worktree"
    more = """In the dashboard `C` in the diff opens your editor for the message. Hooks of the repository run only after
    `imi trust`. Refused without anything staged, on no branch, in conflict, or while another git has locked the index."""
    examples = (('imi commit feat-user-auth -m "Check the token"', "commit what is staged there"),)
    arguments = (_NAME,)
    options = (
        Option("message", "the commit's message", value="TEXT", aliases=("m",), needed=True),
        _FORCE,
        claim_options.AGENT,
    )
    in_menus = True
    requires = ("folder",)
    dialog_options = ("message", "force")

    def consequences(self, context: Context, request: Request) -> list[str]:
        target, git, branch = _changeable(context, request)
        staged = _staged(git, target)
        more = [f"… and {len(staged) - _SHOWN} more"] if len(staged) > _SHOWN else []
        signed = commit_signature.read_signature().words
        head = f"commits {count(len(staged), 'file')} on {safe(branch)}{signed}{_hooks_text(git)}"
        return [head, *(f"  {safe(path, 200)}" for path in staged[:_SHOWN]), *more]

    def run(self, context: Context, request: Request) -> Outcome:
        message = (request.text("message") or "").strip()
        if not message or "\0" in message:
            raise UsageError("imi commit needs a message: -m TEXT", code="missing")
        target, git, branch = _changeable(context, request)
        staged = _staged(git, target)
        sha = publish.commit_staged(git, message)
        agent = claim_options.agent(context, request)
        data: dict[str, object] = {"branch": branch, "commit": sha}
        made = MadeCommit(sha, times.stamp(), safe(redact(message.partition("\n")[0]), 200), agent)

        def record(connection: sqlite3.Connection) -> None:
            repo_name = context.register(target.repository, connection)
            commit_records.record_commits(connection, repo_name, target.name, branch, [made])

        db.transact(context.connection, record)
        line = f"committed {count(len(staged), 'file')} on {safe(branch)}: {sha[:10]}{_hooks_text(git)}"
        return Outcome([line], {"worktree_name": target.name, "files": staged, **data})


class PushAction(Action):
    words = ("push",)
    group = "Changes"
    label = "Push"
    help = "push a worktree's branch to its own upstream, never with force"
    more = """Without an upstream the branch goes to the configured remote under its own name and follows it from then on.
    Refused when the remote has commits that the branch does not have."""
    arguments = (_NAME,)
    options = (_FORCE, claim_options.AGENT)
    dialog_options = ("force",)
    in_menus = True
    requires = ("folder",)

    def consequences(self, context: Context, request: Request) -> list[str]:
        _, git, branch = _changeable(context, request)
        remote, there, is_new = _destination(context, git, branch)
        upstream = ", which becomes its upstream" if is_new else ""
        return [f"pushes {safe(branch)} to {safe(remote)}/{safe(there)}{upstream}"]

    def run(self, context: Context, request: Request) -> Outcome:
        target, git, branch = _changeable(context, request)
        remote, there, is_new = _destination(context, git, branch)
        context.progress(f"pushing to {safe(remote)}")
        publish.push_branch(git, branch, remote, there, set_upstream=is_new)
        data: dict[str, object] = {"worktree_name": target.name, "branch": branch, "remote": remote, "to": there}
        return Outcome([f"pushed {safe(branch)} to {safe(remote)}/{safe(there)}"], data)


class ProposeAction(Action):
    words = ("propose",)
    group = "Changes"
    label = "Propose"
    help = "give the address of the web page on which the branch becomes a pull request"
    more = "The branch has to be pushed first. In the dashboard the page opens in the browser."
    arguments = (_NAME,)
    changes = False
    in_menus = True
    opens_page = True
    requires = ("folder",)

    def run(self, context: Context, request: Request) -> Outcome:
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        git = worktree_git.git_in(context, target)
        branch = _branch(target)
        upstream = publish.upstream_of(git, branch)
        tracked = f"refs/remotes/{upstream[0]}/{upstream[1]}" if upstream else ""
        if upstream is None or refs.resolve(git, tracked) is None:
            raise Refused(f"{safe(branch)} is not pushed: `imi push {safe(target.name)}` does that", code="not-pushed")
        if refs.resolve(git, tracked) != refs.resolve(git, "HEAD"):
            raise Refused(f"{safe(branch)} differs from {safe('/'.join(upstream))}: push it first", code="not-pushed")
        trunk = worktree_git.trunk_of(context, target.repository).branch
        url = remote_address.proposal_page(layout.remote_url(target.repository, upstream[0]), trunk, upstream[1])
        if url is None:
            raise Refused(f"the remote {safe(upstream[0])} is not a hosted forge with web pages", code="no-page")
        return Outcome([url], {"worktree_name": target.name, "url": url, "branch": upstream[1], "into": trunk})


def _changeable(context: Context, request: Request) -> tuple[Target, Git, str]:
    """The worktree, git in it, and its branch; Refused for one that is another owner's."""
    target = worktree_lookup.find_worktree(context, str(request.text("name")))
    git = worktree_git.git_in(context, target)
    git.trusted = git.trusted and target.kind != "review"
    claim = ownership.claim_of(context, target)
    if claim is not None and not request.flag("force") and ownership.is_anothers(claim, context.agent(request)):
        raise Refused(
            advised(ownership.held_by(claim), "--force acts anyway", "ask the owner, or tick the box above"),
            code="claimed",
        )
    return target, git, _branch(target)


def _branch(target: Target) -> str:
    if target.branch is None:
        raise Refused(f"{safe(target.name)} is on no branch: make one with `git switch -c NAME` first", code="detached")
    return target.branch


def _staged(git: Git, target: Target) -> list[str]:
    status = git_status.read_status(git, untracked="no")
    if status.conflicted:
        raise Refused(
            f"{safe(target.name)} has {count(len(status.conflicted), 'file')} in conflict: resolve and stage them first",
            code="conflicts",
            details=[safe(name) for name in status.conflicted[:_SHOWN]],
        )
    if not status.staged:
        raise Refused(f"nothing is staged in {safe(target.name)}: `imi stage` does that", code="unchanged")
    return list(status.staged)


def _hooks_text(git: Git) -> str:
    """Say so where hooks of the repository do not run."""
    return "; hooks run only after `imi trust`" if not git.trusted and safety.has_hooks(git.common_dir) else ""


def _destination(context: Context, git: Git, branch: str) -> tuple[str, str, bool]:
    """The remote, the branch there, and whether it becomes the upstream."""
    upstream = publish.upstream_of(git, branch)
    if upstream is not None:
        return *upstream, False
    return context.settings.text("git.remote_name"), branch, True


ACTIONS = (CommitAction(), PushAction(), ProposeAction())
