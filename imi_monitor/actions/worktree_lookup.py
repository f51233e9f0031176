"""Looking up a worktree by the name a user gives. A folder name that two worktrees share is ambiguous, never a guess."""

from __future__ import annotations

from imi_monitor import roster
from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.roster import KNOWN_PREFIXES, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.refs import Trunk
    from imi_monitor.git.runner import Git
    from imi_monitor.store.trash import TrashEntry

__all__ = [
    "Target",
    "find_trunk",
    "find_worktree",
    "git_in",
    "known_repositories",
    "list_worktrees",
    "missing_folder",
    "name_prefixes",
    "trunk_branch",
]


def list_worktrees(context: Context, repository: layout.Repository) -> list[Target]:
    """Every worktree of the repository: those git lists, and active rows whose worktree git no longer lists."""
    return roster.list_worktrees(context.connection, repository, context.repo_name(repository))


def name_prefixes(context: Context) -> list[str]:
    """Prefixes that a short name may leave out: those of the built-in types, then of the user's types."""
    from imi_monitor.store import worktree_types  # imported here: a full name does not need it

    own = worktree_types.own_prefixes(context.connection)
    return [*KNOWN_PREFIXES, *(prefix for prefix in own if prefix not in KNOWN_PREFIXES)]


def find_worktree(context: Context, name: str, repo: str | None = None) -> Target:
    """The worktree `name` (`user-auth` finds `feat-user-auth`) in the current or given repository, else in any known one."""
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(
            f"{safe(name)!r} is not a worktree name: give one as `imi list` shows it, without a path", code="bad-name"
        )
    repository = context.repository(repo) if repo is not None else context.find_repository()
    if repository is not None:
        found = _pick(context, list_worktrees(context, repository), name)
        if found is not None:
            return found
        if (repo is not None or context.explicit_repo) and ":" not in name:
            raise _none(context, name, [repository])
    others = [
        other for other in known_repositories(context) if not repository or other.common_dir != repository.common_dir
    ]
    hits = [hit for other in others if (hit := _pick(context, list_worktrees(context, other), name))]
    if len(hits) == 1:
        return hits[0]
    if hits:
        places = ", ".join(f"{safe(hit.name)} in {safe(hit.repo_name or hit.repository.home)}" for hit in hits)
        raise Refused(f"{safe(name)!r} may mean {places}: say which with --repo", code="ambiguous")
    if ":" in name:
        from imi_monitor.actions.team import remote_claim

        raise remote_claim.elsewhere(context, name)
    raise _none(context, name, [*([repository] if repository else []), *others])


def git_in(context: Context, found: Target) -> Git:
    """git in this worktree, with the repository's trust. A review worktree is never trusted: a relative hook or filter path
    would run a file of the pull request."""
    if found.kind != "review":
        return context.git(found.repository, found.admin_dir, found.path)
    from imi_monitor.git.runner import Git

    return Git(found.repository.common_dir, found.admin_dir, found.path)


def missing_folder(target: Target) -> Refused:
    """The refusal of what needs the worktree's folder."""
    from imi_monitor.model.advice import missing_folder as sentence

    return Refused(sentence(target.name, target.path), code="missing")


def trunk_branch(context: Context, git: Git, remote: str | None = None) -> str:
    """The name of the trunk's branch."""
    return find_trunk(context, git, remote).branch


def find_trunk(context: Context, git: Git, remote: str | None = None) -> Trunk:
    """The repository's trunk: as configured, else as the remote (default: the configured one) names it."""
    from imi_monitor.git import refs

    settings = context.settings
    configured = settings.text("git.default_branch") or None
    return refs.find_trunk(git, remote or settings.text("git.remote_name"), configured)


def known_repositories(context: Context) -> list[layout.Repository]:
    """The repositories of the registry that exist on this machine."""
    return roster.known_repositories(context.connection)


def _pick(context: Context, among: list[Target], name: str) -> Target | None:
    by_name = {target.name: target for target in reversed(among)}
    if name in by_name:
        return by_name[name]  # the common case: agents give full names
    found = (by_name.get(candidate) for candidate in names.candidates(name, name_prefixes(context)))
    return next(filter(None, found), None)


def _none(context: Context, name: str, searched: list[layout.Repository]) -> Refused:
    from difflib import get_close_matches

    removed = _removed(context, name, searched)
    if removed is not None:
        sentence = f"{safe(removed.worktree_name)} was removed: `imi undo {removed.id}` restores it"
        return Refused(sentence, code="no-worktree")
    all_names = [target.name for repository in searched for target in list_worktrees(context, repository)]
    near = get_close_matches(name, all_names, 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`imi list` shows all worktrees"
    where = safe(layout.repository_name(searched[0])) if len(searched) == 1 else f"{len(searched)} known repositories"
    return Refused(f"no worktree {safe(name)!r} in {where}: {hint}", code="no-worktree")


def _removed(context: Context, name: str, searched: list[layout.Repository]) -> TrashEntry | None:
    """The newest trash entry of this name, given like that of a worktree."""
    from imi_monitor.store import trash

    possible = (name, *names.candidates(name, name_prefixes(context)))
    within = {context.repo_name(repository) for repository in searched}
    kept = trash.list_kept(context.connection)
    return next((one for one in kept if one.repo_name in within and one.worktree_name in possible), None)
