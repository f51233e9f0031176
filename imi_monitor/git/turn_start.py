"""The files of a worktree as they were when its agent's last turn began, for the diff of that turn.

They are kept in a private folder: a copy of the index with all changed and untracked files added, and the objects that the
repository lacked. Nothing is written in the repository; the folder is replaced at the beginning of the next turn. The files of a
turn that was not seen when it began are rebuilt there (`turn_rebuild`).
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from hashlib import blake2b

from imi_monitor import paths
from imi_monitor.fast.frozen_dataclass import asdict, dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_diff, turn_rebuild
from imi_monitor.model import times
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypedDict, Unpack

    from imi_monitor.git.runner import Git
    from imi_monitor.model.diff import Diff, DiffLimits
    from imi_monitor.model.turn_files import TurnFiles

    class TurnDiffOptions(TypedDict, total=False):
        """The keyword arguments of `read_diff` that a turn's diff takes."""

        paths: Sequence[str]
        limits: DiffLimits
        new_files: bool
        on_part: Callable[[Diff], None] | None


_INDEX, _OBJECTS, _ABOUT = "index", "objects", "about.json"
_ONE_TURN = 2.0  # seconds that two readers of one session may differ about when its turn began
_MOST_NAMES = 4_000_000  # bytes
_CLOCK_GRAIN = 0.02  # seconds that the times of files may lag
_PLAIN_INDEX = [("core.splitIndex", "false"), ("core.untrackedCache", "false"), ("index.sparse", "false")]
"""Settings under which git writes the index as one file."""


@dataclass(frozen=True, slots=True)
class KeptLimits:
    """How many changed and new files are kept, and how many bytes of them."""

    files: int = 5000
    bytes: int = 64_000_000


USUAL_LIMITS = KeptLimits()


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The start of a turn: its agent, when it began, and when the files were kept; times as stored, and as seconds."""

    agent: str  # the id of the session
    name: str  # of the agent, as shown
    began_at: str
    kept_at: str
    kept_seconds: float
    admin_dir: str
    rebuilt: bool = False
    has_records: bool = False  # the agent recorded what some file was before
    likely: tuple[str, ...] = ()  # paths whose former content follows from times and commits alone


def folder_of(admin_dir: str) -> str:
    """Return the private folder of a worktree; its git directory stays the same when it is renamed."""
    digest = blake2b(os.fsencode(os.path.realpath(admin_dir)), digest_size=12).hexdigest()
    return os.path.join(paths.state_dir(), "turns", digest)


def keep(
    git: Git,
    agent: str,
    name: str,
    began_at: str,
    now: str,
    limits: KeptLimits = USUAL_LIMITS,
    recorded: TurnFiles | None = None,
) -> TurnStart:
    """Keep the files of git's work tree as they are now, or with what the agent recorded as they were when the turn began.

    GitError when there are too many.
    """
    folder = folder_of(git.admin_dir)
    began = times.parse(began_at) if recorded is not None else None
    seconds = (began or times.now()).timestamp() - _CLOCK_GRAIN
    made = TurnStart(agent, name, began_at, now, seconds, os.path.realpath(git.admin_dir), rebuilt=began is not None)
    if recorded is not None and recorded.before:
        made = replace(made, has_records=True)
    new = f"{folder}.{os.getpid()}"
    _remove(new)
    os.makedirs(os.path.join(new, _OBJECTS), mode=0o700)
    try:
        if recorded is not None and began is not None:
            _copy_index(git, new)
            rebuild = turn_rebuild.Rebuild(git, _environment(git, new), _PLAIN_INDEX, seconds, recorded)
            made = replace(made, likely=rebuild.fill(limits.files))
        else:
            _fill(git, new, limits)
        with open(os.path.join(new, _ABOUT), "w", encoding="utf-8") as file:
            json.dump(asdict(made), file)
        _remove(folder)
        try:
            os.rename(new, folder)
        except OSError:
            if not os.path.isdir(folder):
                raise
            _remove(new)  # another process has kept them meanwhile
    except BaseException:
        _remove(new)
        raise
    return made


def keep_turn(
    git: Git,
    agent: str,
    name: str,
    began_at: str,
    earlier: str | None = None,
    recorded: Callable[[], TurnFiles] | None = None,
) -> bool:
    """Keep the files at the beginning of this turn; False if those of this turn or of a later one are kept already.

    `earlier`: when the turn before began, as this reader saw it; what another reader saw may be the same turn. `recorded` reads
    what the agent recorded of a turn that was not seen when it began.
    """
    before = read(git.admin_dir)
    if before is not None:
        later = _seconds_between(before.began_at, began_at)
        if later is not None and later <= (_ONE_TURN if before.agent == agent and before.began_at != earlier else 0):
            return False
    keep(git, agent, name, began_at, times.stamp(), recorded=recorded() if recorded is not None else None)
    return True


def _seconds_between(first: str, second: str) -> float | None:
    one, other = times.parse(first), times.parse(second)
    return (other - one).total_seconds() if one is not None and other is not None else None


def read(admin_dir: str) -> TurnStart | None:
    """Return what is kept of a worktree; None if there is nothing."""
    try:
        with open(os.path.join(folder_of(admin_dir), _ABOUT), encoding="utf-8") as file:
            found = json.load(file)
        return TurnStart(**{**found, "likely": tuple(found["likely"])} if "likely" in found else found)
    except (OSError, ValueError, TypeError):
        return None


def read_turn_diff(git: Git, start: TurnStart, **options: Unpack[TurnDiffOptions]) -> Diff:
    """Return what differs from the files that are kept."""
    found = git_diff.read_diff(git, "unstaged", index=_environment(git, folder_of(git.admin_dir)), **options)
    shown = (file for file in found.files if file.state != "?" or _is_newer(git, file.path, start))
    likely = frozenset(start.likely)
    files = tuple(replace(file, likely=True) if file.path in likely else file for file in shown)
    return replace(found, files=files, base=None)


def _is_newer(git: Git, path: str, start: TurnStart) -> bool:
    """Whether an untracked file was written since: an older one was too big to be kept."""
    try:
        info = os.lstat(os.path.join(git.work_tree or "", path))
    except (OSError, ValueError):
        return True
    return max(info.st_mtime, info.st_ctime) >= start.kept_seconds


def forget_gone() -> None:
    """Delete what is kept of worktrees that are gone, and what a killed process left behind."""
    root = os.path.join(paths.state_dir(), "turns")
    with suppress(OSError):
        for entry in list(os.scandir(root)):
            digest, _, left = entry.name.partition(".")
            try:
                with open(os.path.join(entry.path, _ABOUT), encoding="utf-8") as file:
                    admin_dir = str(json.load(file)["admin_dir"])
            except (OSError, ValueError, KeyError, TypeError):
                admin_dir = ""
            old = times.now().timestamp() - entry.stat().st_mtime > 3600
            if len(digest) == 24 and ((left and old) or (not left and not os.path.isdir(admin_dir))):
                _remove(entry.path)


def _environment(git: Git, folder: str) -> dict[str, str]:
    return {
        "GIT_INDEX_FILE": os.path.join(folder, _INDEX),
        "GIT_OBJECT_DIRECTORY": os.path.join(folder, _OBJECTS),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(git.common_dir, "objects"),
    }


def _fill(git: Git, folder: str, limits: KeptLimits) -> None:
    """Write the private index and its objects."""
    _copy_index(git, folder)
    env = _environment(git, folder)
    changed = git.lines0("diff-files", "-z", "--name-only", "--no-renames", "--", env=env, timeout=30.0)
    new, more = git_diff.untracked_names(git, (), _MOST_NAMES)
    names = list(dict.fromkeys([*changed, *(name for name in new if not name.endswith("/"))]))
    if more or len(names) > limits.files:
        raise GitError(f"{count(len(names), 'file')} differ: too many to keep", code="too-many")
    stdin = b"".join(os.fsencode(name) + b"\0" for name in _small(git.work_tree or "", names, limits.bytes))
    git.run(
        "update-index", "--add", "--remove", "-z", "--stdin", stdin=stdin, env=env, timeout=30.0, settings=_PLAIN_INDEX
    )


def _copy_index(git: Git, folder: str) -> None:
    with suppress(FileNotFoundError):  # nothing was ever added
        # with its time, by which git recognises files written since
        shutil.copy2(os.path.join(git.admin_dir, "index"), os.path.join(folder, _INDEX))


def _small(work_tree: str, names: list[str], left: int) -> list[str]:
    """Return the names without the files that would take too much room; those are compared by their time alone."""
    kept = []
    for name in names:
        try:
            size = os.lstat(os.path.join(work_tree, name)).st_size
        except (OSError, ValueError):
            size = 0  # deleted
        if size <= left:
            kept.append(name)
            left -= size
    return kept


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
