"""What commits change, as marks that survive being moved: the same change elsewhere in history has the same mark.

Like `git patch-id`, but exact about white space (in Python an indentation is a change) and about binary files.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from imi_monitor.git.commits import HONEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imi_monitor.git.run import Git

# Every setting that shapes a patch is given, so that both sides of a comparison are made the same way.
_AS_PATCH = (
    "--root",
    "--always",
    "-p",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--full-index",
    "--no-color",
    "--unified=3",
    "--diff-algorithm=myers",
    "--ignore-submodules=none",
    "--submodule=short",
    "--no-prefix",
)
_HUNK = re.compile(rb"^@@ [^@]* @@.*$")
_TITLE = re.compile(rb"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class Patch:
    """One commit and the mark of its change; `mark` is None when it changes nothing."""

    sha: str
    mark: str | None


def whole_patch(git: Git, fork: str, tip: str) -> str | None:
    """The mark of everything between two commits taken as one change."""
    # Further ids on a line are taken by diff-tree as the commit's parents: tip as if it were one commit on fork.
    return _patches(git, [f"{tip} {fork}"])[0].mark


def patches(git: Git, shas: Sequence[str], *, reverse: bool = False) -> list[Patch]:
    """The changes of these commits (merges change nothing here), or of undoing them."""
    return _patches(git, shas, *(["-R"] if reverse else [])) if shas else []


def _patches(git: Git, lines: Sequence[str], *options: str) -> list[Patch]:
    done = git.run("diff-tree", "--stdin", *_AS_PATCH, *options, stdin="\n".join([*lines, ""]).encode(), env=HONEST)
    return list(_read(done.stdout))


def _read(output: bytes) -> Iterator[Patch]:
    sha = ""
    lines: list[bytes] = []
    for line in output.split(b"\n"):
        # Inside a patch every line has a mark in front, so a bare id can only be the title of the next one.
        if _TITLE.match(line):
            if sha:
                yield Patch(sha, _mark(lines))
            sha, lines = line.decode("ascii"), []
        else:
            lines.append(line)
    if sha:
        yield Patch(sha, _mark(lines))


def _mark(lines: list[bytes]) -> str | None:
    digest = hashlib.sha256()
    index = b""
    empty = True
    for line in lines:
        if line.startswith(b"index "):
            index = line
            continue
        if not line:
            continue
        # The ids of a text file depend on the rest of the file; those of a binary file are all there is to compare.
        digest.update((index if line.startswith(b"Binary files ") else b"") + _HUNK.sub(b"@@", line) + b"\n")
        empty = False
    return None if empty else digest.hexdigest()
