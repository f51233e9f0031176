"""`--from REF`: a branch here or on the remote, a tag, a commit, or HEAD of where the caller stands; each with ~N or ^N."""

from __future__ import annotations

from imi_monitor.actions.creation import freshness
from imi_monitor.actions.creation.starts import Start
from imi_monitor.git.refs import resolve
from imi_monitor.model import names
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.where import Wanted
    from imi_monitor.git.heads import Heads
    from imi_monitor.git.run import Git

_HEX = frozenset("0123456789abcdef")


def start(context: Context, git: Git, wanted: Wanted, known: Heads, remote: str) -> Start:
    """Where REF is; a branch of the remote is asked for afresh."""
    text = wanted.source or ""
    base, steps = _parse(text)
    there = base.removeprefix(remote + "/")
    on_remote = there != base and there in known.remote and base not in known.local
    warnings: list[str] = []
    if on_remote and not steps:
        news = freshness.ask(context, git, wanted.repository, known, remote, [there])
        warnings, known = news.warnings(git, remote, there), news.heads
    sha = known.remote.get(there) if on_remote else _resolve(context, git, base, known)
    if sha is not None and steps:
        sha = _verified(git, sha + steps)
    if sha is None:
        raise _unknown(text, known, remote)
    branch = there if on_remote else base if base in known.local else None
    return Start(sha, text, None if steps else branch, warnings=warnings)


def _parse(text: str) -> tuple[str, str]:
    """`main~3` -> `main`, `~3`. Whatever else git would read into a revision is refused: it can mean too much."""
    cut = next((at for at, char in enumerate(text) if char in "~^"), len(text))
    base, steps = text[:cut], text[cut:]
    if not all(char in "~^0123456789" for char in steps) or not _is_name(base):
        raise UsageError(f"--from {safe(text, 80)!r} is no branch, tag or commit", code="bad-name")
    return base, steps


def _is_name(base: str) -> bool:
    if base == "HEAD" or names.is_commit_id(base):
        return True
    return (
        names.branch_problem(base.removeprefix("refs/").partition("/")[2] if base.startswith("refs/") else base) is None
    )


def _resolve(context: Context, git: Git, base: str, known: Heads) -> str | None:
    if base == "HEAD":
        place = context.place()
        here = place is not None and place.repository.common_dir == git.common_dir
        return resolve(git.at(place.admin_dir, place.path) if place and here else git, "HEAD")
    if base in known.local:
        return known.local[base]
    if base.startswith("refs/") or names.is_commit_id(base):
        return resolve(git, base)
    found = resolve(git, f"refs/tags/{base}") or resolve(git, f"refs/remotes/{base}")
    return _verified(git, base) if found is None and len(base) >= 4 and _HEX.issuperset(base) else found


def _verified(git: Git, revision: str) -> str | None:
    """In full: a commit id, abbreviated or with steps back from it. Nothing else comes here."""
    done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", ok=(0, 1, 128))
    return done.stdout.decode("ascii").strip() if done.returncode == 0 else None


def _unknown(text: str, known: Heads, remote: str) -> Refused:
    from difflib import get_close_matches

    near = get_close_matches(text, [*known.local, *(f"{remote}/{name}" for name in known.remote)], 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`git branch -a` lists the branches"
    return Refused(f"--from {safe(text, 80)}: there is no such branch, tag or commit here; {hint}", code="no-ref")
