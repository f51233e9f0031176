"""Which worktree a person means by a name. Never by base name alone when two share it: that deletes the wrong one."""

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
    from imi_monitor.git.runner import Git

__all__ = ["Target", "find_worktree", "git_in", "known_repositories", "list_worktrees", "name_prefixes"]


def list_worktrees(context: Context, repository: layout.Repository) -> list[Target]:
    """Every worktree of the repository: git's, and active rows whose worktree git no longer has."""
    return roster.list_worktrees(context.connection, repository, context.repo_name(repository))


def name_prefixes(context: Context) -> list[str]:
    """What a short name may leave out: the prefixes of the built-in types, then those of the user's own."""
    from imi_monitor.store import worktree_types  # only now: whoever gives a whole name does not pay for it

    own = worktree_types.own_prefixes(context.connection)
    return [*KNOWN_PREFIXES, *(prefix for prefix in own if prefix not in KNOWN_PREFIXES)]


def find_worktree(context: Context, name: str, repo: str | None = None) -> Target:
    """The worktree called `name` (`user-auth` finds `feat-user-auth`), in the repository meant, else in all known ones."""
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(
            f"{safe(name)!r} is no worktree's name: give one as `imi list` shows it, without a path", code="bad-name"
        )
    repository = context.repository(repo) if repo is not None else context.find_repository()
    if repository is not None:
        found = _pick(context, list_worktrees(context, repository), name)
        if found is not None:
            return found
        if repo is not None or context.explicit_repo:
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
    raise _none(context, name, [*([repository] if repository else []), *others])


def git_in(context: Context, found: Target) -> Git:
    """git in this worktree, trusted as its repository is; but never in one of a pull request, where a trusted relative
    hook or filter would be a stranger's file."""
    if found.kind != "review":
        return context.git(found.repository, found.admin_dir, found.path)
    from imi_monitor.git.runner import Git

    return Git(found.repository.common_dir, found.admin_dir, found.path)


def known_repositories(context: Context) -> list[layout.Repository]:
    """The repositories of the registry that exist on this machine."""
    return roster.known_repositories(context.connection)


def _pick(context: Context, among: list[Target], name: str) -> Target | None:
    by_name = {target.name: target for target in reversed(among)}
    if name in by_name:
        return by_name[name]  # nothing more is asked: agents give whole names
    found = (by_name.get(candidate) for candidate in names.candidates(name, name_prefixes(context)))
    return next(filter(None, found), None)


def _none(context: Context, name: str, searched: list[layout.Repository]) -> Refused:
    from difflib import get_close_matches

    all_names = [target.name for repository in searched for target in list_worktrees(context, repository)]
    near = get_close_matches(name, all_names, 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`imi list` shows what there is"
    where = safe(layout.repository_name(searched[0])) if len(searched) == 1 else f"{len(searched)} known repositories"
    return Refused(f"no worktree {safe(name)!r} in {where}: {hint}", code="no-worktree")
