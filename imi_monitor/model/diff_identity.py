"""Identities of hunks and files by content: a hunk that only moved keeps its own, one whose lines change gets another."""

from __future__ import annotations

from hashlib import blake2b

from imi_monitor.model.diff import CONTEXT, DEFAULT_LIMITS, DiffHunk, DiffLine, FileDiff

_BYTES = 8
_LONG = DEFAULT_LIMITS.width  # characters of a line that every diff has; of a longer one the file's content decides


def hunk_ids(file: FileDiff) -> tuple[str, ...]:
    """Return the id of each hunk; equal hunks of one file are numbered: `1f…`, `1f….2`."""
    found: list[str] = []
    times: dict[str, int] = {}
    for index, hunk in enumerate(file.hunks):
        partial = file.cut > 0 and index == len(file.hunks) - 1
        digest = _digest(_changed_part(hunk), file.content if partial or _has_long_line(hunk) else "")
        times[digest] = number = times.get(digest, 0) + 1
        found.append(digest if number == 1 else f"{digest}.{number}")
    return tuple(found)


def file_id(file: FileDiff) -> str:
    """Return the id of all that the diff shows of this file."""
    facts = (file.state, file.origin or "", file.old_mode or "", file.new_mode or "", file.content, str(file.added))
    return _digest((), "\0".join(facts))


def reviewable_parts(file: FileDiff) -> tuple[str, ...]:
    """Return the ids of all that can be read on its own: each hunk, a change of the mode, or the file without any hunk."""
    mode = f"mode {file.old_mode} {file.new_mode}"
    modes = (mode,) if file.hunks and file.old_mode and file.new_mode and file.old_mode != file.new_mode else ()
    return (*hunk_ids(file), *modes) if file.hunks else (f"file {file_id(file)}",)


def _changed_part(hunk: DiffHunk) -> tuple[DiffLine, ...]:
    """Return the hunk's lines from its first changed one to the last: the lines around them belong to others."""
    changed = [index for index, line in enumerate(hunk.lines) if line.sign != CONTEXT]
    return hunk.lines[changed[0] : changed[-1] + 1] if changed else ()


def _has_long_line(hunk: DiffHunk) -> bool:
    return any(line.cut or len(line.text) >= _LONG for line in hunk.lines)


def _digest(lines: tuple[DiffLine, ...], more: str) -> str:
    text = "".join(f"{line.sign}{line.marks}{line.text[:_LONG]}\n" for line in lines) + "\0" + more
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest()
