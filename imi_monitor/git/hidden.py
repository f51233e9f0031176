"""Edits that `git status` was told not to see: files marked assume-unchanged or skip-worktree whose content is not the
index's. They are somebody's work like any other and must be found before a worktree goes away.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.run import Git

_CAP = 128 << 20  # a line for every file of the index


@dataclass(frozen=True, slots=True)
class _Marked:
    path: str
    mode: str
    sha: str
    sparse: bool  # skip-worktree: absent on purpose


def hidden_edits(git: Git) -> tuple[str, ...]:
    """The marked files that differ from the index. What cannot be read counts as an edit."""
    marked = [one for line in git.lines0("ls-files", "-z", "-v", "--stage", cap=_CAP) if (one := _marked(line))]
    edits: list[str] = []
    unsure: list[_Marked] = []
    for one in marked:
        verdict = _at_a_glance(os.path.join(git.work_tree or "", one.path), one)
        if verdict is None:
            unsure.append(one)
        elif verdict:
            edits.append(one.path)
    return tuple(sorted([*edits, *_differing(git, unsure)]))


def _marked(line: str) -> _Marked | None:
    """`S 100644 <sha> 0<TAB>path`: lower case is assume-unchanged, S is skip-worktree, s both."""
    words, _, path = line.partition("\t")
    tag, mode, sha, _ = words.split(" ")
    return _Marked(path, mode, sha, tag in "Ss") if tag == "S" or tag.islower() else None


def _at_a_glance(path: str, one: _Marked) -> bool | None:
    """True: edited; False: as in the index; None: only its content tells."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return not one.sparse
    except OSError:
        return True
    if one.mode == "160000":  # a submodule somebody hid: look closer only if there is one
        return os.path.lexists(os.path.join(path, ".git"))
    if one.mode == "120000":
        return not stat.S_ISLNK(info.st_mode) or _blob_id(os.fsencode(os.readlink(path)), one.sha) != one.sha
    return None if stat.S_ISREG(info.st_mode) and os.access(path, os.R_OK) else True


def _blob_id(content: bytes, like: str) -> str:
    algorithm = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _differing(git: Git, files: Sequence[_Marked]) -> list[str]:
    """Those whose content git would store under another id (line endings converted as the repository says)."""
    if not files:
        return []
    names = b"".join(_quoted(os.fsencode(one.path)) + b"\n" for one in files)
    shas = git.text("hash-object", "--stdin-paths", stdin=names, timeout=60.0).split("\n")
    return [one.path for one, sha in zip(files, shas, strict=True) if sha != one.sha]


def _quoted(path: bytes) -> bytes:
    """A path as a line of its own: in git's quotes, so that a newline or a quote in it stays part of it."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
