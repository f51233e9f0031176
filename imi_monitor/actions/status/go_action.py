"""`imi go QUERY` prints the path of the worktree that matches best, `imi trunk` that of the trunk."""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.model.errors import Refused
from imi_monitor.model.fuzzy import MatchQuality, match
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.layout import Repository

_MOST_SHOWN = 20
# the rank of the fields of a worktree when the query matches them equally well
_NAME, _BARE_NAME, _BRANCH, _REPOSITORY = range(4)


@dataclass(frozen=True, slots=True)
class GoCandidate:
    """A worktree and how well it matches; the smallest rank is the best."""

    rank: tuple[bool, bool, MatchQuality, int]
    target: Target

    def data(self) -> dict[str, object]:
        one = self.target
        return {"worktree_name": one.name, "repo": repo_of(one), "branch": one.branch, "path": one.path}


def repo_of(one: Target) -> str:
    from imi_monitor.git import layout

    return one.repo_name or layout.repository_name(one.repository)


def trunk_of(context: Context, repository: Repository) -> Target:
    """The trunk's worktree: the main one; in a bare repository the one on the default branch."""
    among = worktree_lookup.list_worktrees(context, repository)
    main = next((one for one in among if one.is_main), None)
    if main is None:
        from imi_monitor.git import refs

        remote, configured = (context.settings.text(f"git.{key}") for key in ("remote_name", "default_branch"))
        branch = refs.default_branch(context.git(repository), remote, configured or None)
        main = next((one for one in among if one.linked is not None and one.branch == branch), None)
        if main is None:
            raise Refused(
                f"{safe(repository.home)} is bare and has no worktree on {safe(branch)}: make one with "
                f"`git worktree add trunk-{safe(branch)} {safe(branch)}`",
                code="no-trunk",
            )
    if main.missing:
        raise Refused(
            f"the trunk's folder {safe(main.path)} is gone: `imi repair` finds it if it was moved", code="missing"
        )
    return main


def candidates(context: Context, *, trunks_only: bool) -> list[tuple[Target, bool]]:
    """(worktree, in another repository) for every existing worktree; those of the current repository come first."""
    here = context.find_repository()
    repositories = [here] if here else []
    if not context.explicit_repo:
        others = worktree_lookup.known_repositories(context)
        repositories.extend(one for one in others if here is None or one.common_dir != here.common_dir)
    found: list[tuple[Target, bool]] = []
    for repository in repositories:
        among = [one for one in worktree_lookup.list_worktrees(context, repository) if not _is_gone(one)]
        kept = [one for one in among if _is_trunk(one)] if trunks_only else among
        found.extend((one, here is not None and repository.common_dir != here.common_dir) for one in kept)
    return found


def best(
    query: str, among: list[tuple[Target, bool]], prefixes: list[str], *, trunks_only: bool = False
) -> list[GoCandidate]:
    """The matches of the best rank. Scattered letters in this repository rank below a part of a name in another one."""
    found = []
    for one, elsewhere in among:
        fields = _fields(one, prefixes, trunks_only)
        hits = [(hit, field) for field, text in fields if (hit := match(query, text)) is not None]
        if hits:
            hit, field = min(hits)
            found.append(GoCandidate((hit is MatchQuality.LETTERS, elsewhere, hit, field), one))
    top = min((one.rank for one in found), default=None)
    return [one for one in found if one.rank == top]


def _fields(one: Target, prefixes: list[str], trunks_only: bool) -> list[tuple[int, str]]:
    """The texts that the query is matched with. `feat-api` is also `api`; a repository's name stands for its trunk."""
    repository = [(_REPOSITORY, repo_of(one))] if _is_trunk(one) else []
    if trunks_only:
        return repository
    bare = [one.name.removeprefix(prefix) for prefix in prefixes if one.name.startswith(prefix)]
    names = [(_NAME, one.name), *((_BARE_NAME, text) for text in bare)]
    return names + ([(_BRANCH, one.branch)] if one.branch else []) + repository


def _is_gone(one: Target) -> bool:
    return one.missing or (one.linked is not None and one.linked.missing)


def _is_trunk(one: Target) -> bool:
    return one.is_main or (one.repository.bare and one.name.startswith("trunk-"))


class GoAction(Action):
    words = ("go",)
    group = "Worktrees"
    label = "Go to a worktree"
    examples = (("imi go auth", "change to the worktree whose name fits best (with the shell function)"),)
    returns_path = True
    help = "print the path of the best-matching worktree, by its name, branch or repository"
    more = """
    The whole name ranks first, then its start, a part of it, its letters in order; the current repository ranks before
    the others. With the shell function of `imi shell-init` it changes directory.
    """
    arguments = (Argument("query", "letters of a worktree's name, its branch or its repository", optional=True),)
    options = (Option("repos", "match repositories only and go to their trunks", aliases=("r",)),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        trunks_only = request.flag("repos")
        among = candidates(context, trunks_only=trunks_only)
        query = request.text("query")
        if not query:
            return self._choose(context, among)
        found = best(
            query, among, [] if trunks_only else worktree_lookup.name_prefixes(context), trunks_only=trunks_only
        )
        if not found:
            raise _no_match(query, among)
        if len(found) > 1:
            raise _ambiguous(query, found)
        return _outcome(found[0].target)

    def _choose(self, context: Context, among: list[tuple[Target, bool]]) -> Outcome:
        everything = [GoCandidate((False, elsewhere, MatchQuality.EXACT, _NAME), one) for one, elsewhere in among]
        if not everything:
            raise Refused("there is no worktree yet: `imi feat NAME` makes one", code="no-worktree")
        index = context.choose("Go to", _lines(everything))
        if index is None:
            raise Refused(
                "imi go needs a query: give a few letters of one of these",
                code="choose",
                details=_shortened(everything),
                data={"candidates": [one.data() for one in everything]},
            )
        return _outcome(everything[index].target)


class TrunkAction(Action):
    words = ("trunk",)
    group = "Worktrees"
    label = "Go to the trunk"
    returns_path = True
    help = "print the path of the trunk's worktree"
    arguments = (Argument("repo", "a repository: a path, or a name from the registry", optional=True),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        return _outcome(trunk_of(context, context.repository(request.text("repo"))))


def _outcome(one: Target) -> Outcome:
    data: dict[str, object] = {
        "target_path": one.path,
        "worktree_name": one.name,
        "repo": repo_of(one),
        "branch": one.branch,
    }
    return Outcome(data=data, path=one.path)


def _no_match(query: str, among: list[tuple[Target, bool]]) -> Refused:
    from difflib import get_close_matches

    near = get_close_matches(query, [one.name for one, _ in among], 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`imi list --all` shows all worktrees"
    return Refused(f"nothing matches {safe(query)!r}: {hint}", code="no-worktree")


def _ambiguous(query: str, found: list[GoCandidate]) -> Refused:
    return Refused(
        f"{safe(query)!r} may mean any of {len(found)} worktrees: give more letters",
        code="ambiguous",
        details=_shortened(found),
        data={"candidates": [one.data() for one in found]},
    )


def _shortened(found: list[GoCandidate]) -> list[str]:
    lines = _lines(found[:_MOST_SHOWN])
    return lines if len(found) <= _MOST_SHOWN else [*lines, f"… and {len(found) - _MOST_SHOWN} more"]


def _lines(found: list[GoCandidate]) -> list[str]:
    from imi_monitor.model.columns import Column, table

    rows = [
        [safe(repo_of(one.target)), safe(one.target.name), safe(one.target.branch or "(detached)")] for one in found
    ]
    return table((Column(""), Column(""), Column("")), rows)


ACTIONS = (GoAction(), TrunkAction())
