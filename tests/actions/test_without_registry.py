"""What git alone can answer works while the registry cannot be used; claims are unknown then. # M4"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import registry_faults
from tests.helpers import Ran, Repo, imi

VIEWS = (
    ("list",),
    ("status",),
    ("status", "feat-x"),
    ("diff", "feat-x"),
    ("log", "feat-x"),
    ("go", "feat-x"),
    ("trunk",),
    ("collisions",),
    ("collisions", "feat-x", "feat-y"),
    ("disk",),
    ("disk", "feat-x"),
    (),
)
NEEDS_CLAIMS = (
    ("claim", "feat-x", "--agent", "thief"),
    ("claim", "feat-x", "--agent", "thief", "--force", "--reason", "mine"),
    ("release", "feat-x", "--agent", "keeper", "--dirty-ok"),
    ("heartbeat", "feat-x", "--agent", "keeper"),
    ("remove", "feat-x", "--force", "--yes-really", "feat-x"),
    ("feat", "new"),
    ("rename", "feat-x", "feat-z"),
    ("list", "--all"),
    ("disk", "--all"),
    ("claims",),
    ("queue",),
    ("events",),
)


@pytest.fixture
def world(repo: Repo) -> Repo:
    """Two worktrees with changes, one of them claimed."""
    for name in ("feat-x", "feat-y"):
        repo.worktree(name).write("README.md", f"{name}\n")
    assert imi("claim", "feat-x", "--agent", "keeper", cwd=repo.path).code == 0
    return repo


@pytest.fixture
def registry(own_home: Path) -> Path:
    return own_home / ".config" / "iMi" / "iMi.db"


def check_views(repo: Repo, reason: str, run: Callable[..., Ran] = imi) -> None:
    """Every view works from git, with one line on stderr that says why claims are unknown."""
    for words in VIEWS:
        ran = run(*words, cwd=repo.path)
        assert ran.code == 0 and ran.out, (words, ran)
        assert ran.err.startswith("warning: claims are unknown and count as held: "), (words, ran)
        assert reason in ran.err and ran.err.count("\n") == 1, (words, ran)
    listed = run("list", "--json", cwd=repo.path).data
    assert {one["worktree_name"]: one["claim_state"] for one in listed["worktrees"]} == {
        "app": "unknown",
        "feat-x": "unknown",
        "feat-y": "unknown",
    }
    assert reason in listed["registry"]["error"] and listed["registry"]["code"].startswith("registry")
    assert "feat-x  feat   ?      feat/x" in run("list", cwd=repo.path).out
    doctor = run("doctor", cwd=repo.path)
    assert doctor.code == 1 and "ok    git" in doctor.out and reason in doctor.out


def check_acts(repo: Repo, reason: str, run: Callable[..., Ran] = imi) -> None:
    """Every act is refused with the same sentence, and the exit status of `verify-lock` is 2."""
    for words in NEEDS_CLAIMS:
        ran = run(*words, cwd=repo.path)
        assert ran.code == 1 and not ran.out, (words, ran)
        assert reason in ran.err and ran.err.count("\n") == 1, (words, ran)
    ran = run("verify-lock", "feat-x", "--agent", "keeper", cwd=repo.path)
    assert ran.code == 2 and reason in ran.err
    assert (repo.path.parent / "feat-x").is_dir()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (registry_faults.overwrite_header, "is damaged"),
        (registry_faults.overwrite_pages, "is damaged"),
        (registry_faults.make_newer, "was made by a newer imi"),
        (registry_faults.put_folder_in_place, "is a folder"),
        (registry_faults.delete_registry, "is gone, but the ballast"),
        (registry_faults.empty_registry, "is empty, but the ballast"),
    ],
)
def test_views_work_and_acts_are_refused(
    world: Repo, registry: Path, fault: Callable[[Path], None], reason: str
) -> None:
    fault(registry)
    before = registry.read_bytes() if registry.is_file() else b""
    check_views(world, reason)
    check_acts(world, reason)
    assert not registry.is_file() or registry.read_bytes() == before


@pytest.fixture
def read_only_home(own_home: Path) -> Iterator[Path]:
    yield own_home
    registry_faults.allow_writing(own_home)


def test_viewing_works_in_a_read_only_home(world: Repo, read_only_home: Path) -> None:
    registry_faults.write_protect(read_only_home)
    check_views(world, "is read-only", registry_faults.imi_without_privilege)
    check_acts(world, "is read-only", registry_faults.imi_without_privilege)


def test_viewing_works_in_a_read_only_home_without_a_registry(repo: Repo, read_only_home: Path) -> None:
    for name in ("feat-x", "feat-y"):
        repo.worktree(name).write("README.md", f"{name}\n")
    registry_faults.write_protect(read_only_home)
    check_views(repo, "registry", registry_faults.imi_without_privilege)


def test_outside_of_a_repository_the_registry_alone_lists_any(world: Repo, registry: Path, tmp_path: Path) -> None:
    registry_faults.overwrite_header(registry)
    for words in (("list",), ("status",)):
        ran = imi(*words, cwd=tmp_path)
        assert ran.code == 1 and "is damaged" in ran.err and ran.err.count("\n") == 1, ran


def test_a_name_that_is_not_found_is_told_with_the_registry_s_state(world: Repo, registry: Path) -> None:
    registry_faults.overwrite_header(registry)
    ran = imi("diff", "nosuch", cwd=world.path)
    assert ran.code == 1 and "no worktree 'nosuch'" in ran.err and "claims are unknown" in ran.err
