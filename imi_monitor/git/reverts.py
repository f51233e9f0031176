"""What happened in the trunk to the files of a branch, and which of these changes were taken back again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imi_monitor.git.commits import HONEST
from imi_monitor.git.patches import patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.run import Git

_MOST_FILES = 300  # as path arguments; fewer files find fewer commits, never wrong ones
_MOST_COMMITS = 500
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_REVERT_TITLE = re.compile(r'^(Revert ".+")(?: \(#\d+\))?$')


@dataclass(frozen=True, slots=True)
class Landed:
    """A commit of the trunk: when it was made and what its message says it takes back."""

    sha: str
    seconds: int
    title: str
    reverts: tuple[str, ...]  # beginnings of commit ids; `Revert "title"` where no id is given


def touching(git: Git, tip: str, base: str, files: Sequence[str]) -> list[Landed]:
    """The commits of `base` that `tip` does not have and that change one of `files`, newest first."""
    paths = [f":(top,literal){name}" for name in files[:_MOST_FILES]]
    output = git.text(
        "rev-list",
        "--no-commit-header",
        "--format=%H %ct%n%B%x00",
        "--encoding=UTF-8",
        "--full-history",
        "--topo-order",
        "--no-merges",
        f"--max-count={_MOST_COMMITS}",
        "--end-of-options",
        base,
        f"^{tip}",
        "--",
        *paths,
        env=HONEST,
    )
    return [_landed(record.lstrip("\n")) for record in output.split("\0") if record.strip()]


def not_reverted(git: Git, landed: Sequence[Landed]) -> list[str]:
    """The marks of those commits (newest first) that no later one takes back, by content or in its own words."""
    shas = [one.sha for one in landed]
    undone: set[str | None] = set()
    words: list[str] = []
    kept: list[str] = []
    for one, made, undoing in zip(landed, patches(git, shas), patches(git, shas, reverse=True), strict=True):
        if _spoken_of(one, words) or made.mark in undone:
            undone.discard(made.mark)
            continue
        if made.mark:
            kept.append(made.mark)
            undone.add(undoing.mark)
        words.extend(one.reverts)
    return kept


def _landed(record: str) -> Landed:
    first, _, message = record.partition("\n")
    sha, seconds = first.split(" ")
    title = message.partition("\n")[0]
    named = _REVERT_TITLE.match(title)
    return Landed(sha, int(seconds), title, tuple(_REVERTED.findall(message)) or ((named[1],) if named else ()))


def _spoken_of(one: Landed, words: list[str]) -> bool:
    """Whether a later commit says that it reverts this one; each such word counts once."""
    for word in words:
        if word == f'Revert "{one.title}"' or one.sha.startswith(word):
            words.remove(word)
            return True
    return False
