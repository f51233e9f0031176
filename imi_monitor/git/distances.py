"""How many commits lie between the branches and the trunk: of all worktrees by two processes, and cached, because the distance
between two commits never changes.

The history is read down to the newest commit that all have in common; what lies below it is on both sides of every distance.
"""

from __future__ import annotations

from imi_monitor.git import refs
from imi_monitor.model.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.git.runner import Git

_MOST_COMMITS = 20_000  # with a longer common history (an orphan branch), each distance is read alone
_MOST_KNOWN = 8000
_known: dict[tuple[str, str, str], tuple[int, int]] = {}


def read_distances(git: Git, tips: Iterable[str], base: str) -> None:
    """Read the distances of several commits from `base` into the cache; those that cannot be read stay unknown."""
    wanted = [tip for tip in dict.fromkeys(tips) if tip != base and (git.common_dir, tip, base) not in _known]
    if len(wanted) < 2:
        return  # `find_distance` needs one process only
    commits = [base, *wanted]
    try:
        shared = git.run("merge-base", "--octopus", "--end-of-options", *commits, ok=(0, 1)).stdout.decode().split()
        lines = git.text(
            "rev-list",
            "--topo-order",
            "--parents",
            f"--max-count={_MOST_COMMITS}",
            "--end-of-options",
            *commits,
            *(f"^{one}" for one in shared),
            "--",
            timeout=30.0,
        ).split("\n")
    except GitError:  # an object is missing: each distance is read alone, and only the broken ones stay unknown
        return
    if len(lines) < _MOST_COMMITS:
        for tip, found in zip(wanted, _count(lines, commits), strict=True):
            _remember(git, tip, base, found)


def find_distance(git: Git, tip: str, base: str) -> tuple[int | None, int | None]:
    """Return how many commits only `tip` and only `base` has; both are full ids. None: an object is missing."""
    if tip == base:
        return 0, 0
    key = (git.common_dir, tip, base)
    if key not in _known:
        try:
            _remember(git, tip, base, refs.distance(git, tip, base))
        except GitError:  # in a shallow or partial clone: the rest of the status is still shown
            return None, None
    return _known[key]


def _remember(git: Git, tip: str, base: str, found: tuple[int, int]) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[git.common_dir, tip, base] = found


def _count(lines: list[str], commits: list[str]) -> list[tuple[int, int]]:
    """Return (ahead, behind) of each commit but the first, which is the base.

    A bit of a commit's mask stands for each of `commits` that reaches it. Children come before their parents.
    """
    masks: dict[str, int] = {}
    for number, sha in enumerate(commits):
        masks[sha] = masks.get(sha, 0) | 1 << number
    sizes: dict[int, int] = {}  # mask -> how many commits have it
    for line in lines:
        sha, *parents = line.split(" ")
        mask = masks.pop(sha, 0)
        if mask:
            sizes[mask] = sizes.get(mask, 0) + 1
            for parent in parents:
                masks[parent] = masks.get(parent, 0) | mask
    ahead, shared = [0] * len(commits), [0] * len(commits)
    for mask, size in sizes.items():
        counts = shared if mask & 1 else ahead
        for number in _bits(mask):
            counts[number] += size
    return [(ahead[number], shared[0] - shared[number]) for number in range(1, len(commits))]


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
