"""The real program in a real terminal, driven by keys through a day's work."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.actions.forge import Forge
from tests.helpers import imi as ran
from tests.ui.tmux_kit import MISSING, Tmux, imi

pytestmark = pytest.mark.skipif(MISSING, reason="tmux is not installed here")
SIZES = [(140, 40), (100, 30), (60, 20)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_claim_release_remove_undo_review(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMI_AGENT_ID", "ada-1")
    monkeypatch.setenv("IMI_SESSION_ID", "of-this-test")  # the dashboard's claim is released from outside its tmux pane
    forge = Forge.create(tmp_path)
    made = ran("feat", "api", "--json", cwd=forge.app.path).data
    api = Path(made["worktree_path"])
    with Tmux(forge.app.path, size, imi("monitor", "--repo", str(forge.app.path))) as tmux:
        tmux.until(lambda now: "feat-api" in now and "2 worktrees" in now)
        assert tmux.program() == "imi", "tmux names the window after it"
        select(tmux, "feat-api")

        tmux.keys("c")  # claim
        tmux.until("Claim feat-api")
        tmux.asked()
        tmux.keys("Enter")
        now = tmux.until(lambda now: owned(now, "ada-1") and "Cancel" not in now)
        assert max(len(line.rstrip()) for line in now.splitlines()) in range(size[0] - 8, size[0] + 1), now
        assert holder(forge) == "ada-1"

        assert ran("release", "feat-api", "--agent", "ada-1", cwd=forge.app.path).code == 0  # another process
        tmux.until(lambda now: owned(now, "unclaimed"))

        select(tmux, "feat-api")
        tmux.keys("D")  # remove
        tmux.asked()
        assert "Remove feat-api" in tmux.screen()
        tmux.keys("Tab", "Enter")  # from the harmless button to the other one
        tmux.until(lambda _: not api.exists())
        tmux.until(lambda now: not owned(now, "unclaimed") and "Remove feat-api" not in now)  # the dialog is gone

        tmux.keys("U")  # undo
        tmux.asked()
        tmux.keys("Enter")
        tmux.until(lambda _: (api / "README.md").exists())
        tmux.until(lambda now: owned(now, "unclaimed") and "Cancel" not in now)

        tmux.keys("v")  # review
        tmux.asked()
        tmux.text("123")
        tmux.until("123")
        tmux.keys("Enter")
        tmux.until("Diff review-123")
        tmux.keys("q")
        tmux.until(lambda now: owned(now, "unclaimed", "review-123") and "Cancel" not in now)
        worktrees = ran("list", "--json", cwd=forge.app.path).data["worktrees"]
        review = next(row for row in worktrees if row["worktree_name"] == "review-123")
        assert (Path(review["path"]) / "feat-add-auth.txt").exists()

        assert tmux.shown("alternate_on")
        tmux.rest()
        tmux.keys("q")
        now = tmux.until("ended with 0")
        assert not tmux.shown("alternate_on") and not tmux.shown("mouse_any_flag") and tmux.shown("cursor_flag")
        assert "Traceback" not in now
        tmux.text("echo still echoes")
        tmux.until("echo still echoes")


def select(tmux: Tmux, name: str) -> None:
    """Filter for it and put the cursor there, as a person in a hurry does."""
    tmux.text(f"/{name}\r")
    tmux.until(name)
    tmux.keys("Escape")
    tmux.rest()  # an escape right before a letter would be one key


def owned(screen: str, owner: str, name: str = "feat-api") -> bool:
    """Whether a worktree's line names this owner."""
    return any(name in line and owner in line for line in screen.splitlines())


def holder(forge: Forge) -> str | None:
    data = ran("claims", "--json", cwd=forge.app.path).data
    return next((str(row["agent_id"]) for row in data["claims"]), None)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with Tmux(tmp_path, (60, 20), ["echo", "there"]) as tmux:
        tmux.until("there")
        socket = tmux._socket
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert socket not in listed
    assert not Path("/tmp", f"tmux-{os.getuid()}", socket).exists()
