"""Who gets into whose way: the files that two worktrees touch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from imi_monitor.model.snapshot import Key

Pair = tuple[Key, Key | None]  # None: the trunk

# a file touched in more worktrees than this is everybody's (a lock file after an update): its pairs would be noise
MOST_SHARERS = 40


def overlaps(touched: Mapping[Key, frozenset[str]]) -> dict[Pair, tuple[str, ...]]:
    """For each pair of worktrees of one repository that touch the same files: which files, sorted."""
    sharers: dict[tuple[str, str], list[Key]] = {}
    for key in sorted(touched):
        for path in touched[key]:
            sharers.setdefault((key.repo, path), []).append(key)
    pairs: dict[Pair, list[str]] = {}
    for (_, path), keys in sharers.items():
        if 1 < len(keys) <= MOST_SHARERS:
            for pair in combinations(keys, 2):
                pairs.setdefault(pair, []).append(path)
    return {pair: tuple(sorted(pairs[pair])) for pair in sorted(pairs, key=str)}


def with_trunk(
    pairs: Mapping[Pair, tuple[str, ...]], touched: Mapping[Key, frozenset[str]], trunk: Mapping[Key, frozenset[str]]
) -> dict[Pair, tuple[str, ...]]:
    """`pairs` and, per worktree, the files that the trunk changed too since they parted."""
    found = dict(pairs)
    for key, files in trunk.items():
        common = files & touched.get(key, frozenset())
        if common:
            found[(key, None)] = tuple(sorted(common))
    return found
