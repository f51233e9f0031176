"""The dashboard shows what became of the registry, and the truth again after each repair. # H3 # M4"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from tests import registry_faults
from tests.helpers import Repo, imi
from tests.ui.pilot_kit import run_dashboard, screen_text, select_worktree, toasts, wait_until

FAULTS: dict[str, Callable[[Path], None]] = {
    "is damaged": registry_faults.overwrite_header,
    "is damaged;": registry_faults.overwrite_pages,
    "changed by a newer imi": registry_faults.make_newer,
    "is a folder": registry_faults.put_folder_in_place,
    "is gone, but the ballast": registry_faults.delete_registry,
    "is empty, but the ballast": registry_faults.empty_registry,
}


@pytest.fixture
def registry(own_home: Path) -> Path:
    return own_home / ".config" / "iMi" / "iMi.db"


@pytest.fixture
def world(repo: Repo) -> Repo:
    return registry_faults.make_claimed_worktrees(repo)


def owners(app: ImiApp) -> dict[str, str]:
    snapshot = app.home.snapshot
    return {tree.key.worktree: tree.owner for tree in snapshot.worktrees} if snapshot else {}


async def wait_for_owners(app: ImiApp, pilot: Pilot[Any], one: str, two: str) -> None:
    await wait_until(pilot, lambda: owners(app) == {"app": owners(app)["app"], "feat-one": one, "feat-two": two}, 60)


async def wait_for_text(app: ImiApp, pilot: Pilot[Any], text: str) -> None:
    await wait_until(pilot, lambda: text in " ".join(screen_text(app).split()), 60)


def test_a_copy_in_the_place_of_the_registry_is_shown(world: Repo, registry: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    registry_faults.copy_registry(registry, copy)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_owners(app, pilot, "keeper", "unclaimed")
        await pilot.press("t")  # the events view
        await wait_until(pilot, lambda: len(app.screen_stack) == 2, 60)
        registry_faults.replace_registry(registry, copy)
        assert imi("release", "feat-one", "--agent", "keeper", cwd=world.path).code == 0
        assert imi("claim", "feat-two", "--agent", "new", cwd=world.path).code == 0
        await wait_for_owners(app, pilot, "unclaimed", "new")
        await wait_for_text(app, pilot, "new claimed feat-two")
        assert app.home.snapshot is not None and app.home.snapshot.registry.replaced == 1

    run_dashboard(world, play)


def test_every_fault_is_shown_until_it_is_repaired(world: Repo, registry: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    registry_faults.copy_registry(registry, copy)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for reason, fault in FAULTS.items():
            await wait_for_owners(app, pilot, "keeper", "unclaimed")
            fault(registry)
            await wait_for_owners(app, pilot, "?", "?")
            await wait_for_text(app, pilot, "claims unknown")
            assert reason in (app.home.snapshot.registry.problem if app.home.snapshot else "" or ""), reason
            await wait_for_text(app, pilot, "? the registry for")
            if registry.is_dir():
                registry.rmdir()
            registry_faults.replace_registry(registry, copy)
        await wait_for_owners(app, pilot, "keeper", "unclaimed")
        await wait_until(pilot, lambda: "claims unknown" not in screen_text(app), 60)

    run_dashboard(world, play)


def test_a_read_only_registry_is_shown(world: Repo, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protected: list[str] = []
    registry_faults.deny_access(monkeypatch, protected)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_owners(app, pilot, "keeper", "unclaimed")
        protected.append(str(registry.parent))
        await wait_for_owners(app, pilot, "?", "?")
        assert app.home.snapshot is not None and "is read-only" in (app.home.snapshot.registry.problem or "")
        protected.clear()
        await wait_for_owners(app, pilot, "keeper", "unclaimed")

    run_dashboard(world, play)


def test_a_dashboard_started_on_a_damaged_registry_works_from_git(world: Repo, registry: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    registry_faults.copy_registry(registry, copy)
    registry_faults.overwrite_header(registry)
    (world.path.parent / "app.worktrees" / "feat-one" / "README.md").write_text("changed by hand\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_owners(app, pilot, "?", "?")
        await wait_for_text(app, pilot, "claims unknown")
        await select_worktree(app, "feat-one")
        await pilot.press("c")
        await wait_until(pilot, lambda: any("claims are unknown and count as held" in text for text in toasts(app)), 60)
        assert len(app.screen_stack) == 1, "no dialog"
        await pilot.press("d")
        await wait_for_text(app, pilot, "changed by hand")
        await pilot.press("escape")
        await pilot.press("U")  # undo reads the notes in the trash
        await wait_until(pilot, lambda: len(app.screen_stack) == 2, 60)
        await pilot.press("escape")
        registry_faults.replace_registry(registry, copy)
        await wait_for_owners(app, pilot, "keeper", "unclaimed")
        await pilot.press("c")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2, 60)

    run_dashboard(world, play)


def test_a_vanished_registry_is_not_made_again_by_the_dashboard(world: Repo, registry: Path) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_owners(app, pilot, "keeper", "unclaimed")
        for file in registry.parent.iterdir():
            file.unlink()  # its traces, too
        await wait_for_owners(app, pilot, "?", "?")
        assert app.home.snapshot is not None and "is gone" in (app.home.snapshot.registry.problem or "")
        assert not registry.exists()
        assert imi("doctor", "--new-registry", cwd=world.path).code in (0, 1)
        assert imi("claim", "feat-two", "--agent", "new", cwd=world.path).code == 0
        await wait_for_owners(app, pilot, "unclaimed", "new")

    run_dashboard(world, play)
