"""What the dashboard remembers: whole or not at all, and never fatal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.ui import saved_layout
from imi_monitor.ui.saved_layout import SavedLayout

FULL = SavedLayout("dirty", True, "owner", ("unclaimed",), "imi-light", 4, True, 2.0)


def test_layout_is_saved_and_loaded_unchanged(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "x.json")
    assert saved_layout.load(path) == SavedLayout()
    saved_layout.save(path, FULL)
    assert saved_layout.load(path) == FULL
    assert os.listdir(tmp_path / "deep") == ["x.json"], "nothing is left beside it"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'"x"', b"[" * 100_000, b"null"])
def test_unreadable_layout_file_gives_the_defaults(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert saved_layout.load(str(path)) == SavedLayout()


def test_invalid_values_of_a_layout_file_become_defaults(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"sort": 3, "folded": [1], "detail": true, "interval": 2, "new": "later version"}')
    assert saved_layout.load(str(path)) == SavedLayout(interval=2.0)


def test_each_set_of_repositories_has_its_own_layout_file() -> None:
    names = {saved_layout.path_for(dirs) for dirs in (None, ["/a"], ["/b"], ["/a", "/b"])}
    assert len(names) == 4 and all(name.startswith(paths.state_dir()) for name in names)
    assert saved_layout.path_for(["/a", "/b"]) == saved_layout.path_for(["/b", "/a"])


def test_full_disk_keeps_the_previous_layout_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "deep" / "x.json")
    saved_layout.save(path, FULL)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("json.dump", full)
    with pytest.raises(OSError, match="No space"):
        saved_layout.save(path, SavedLayout())
    assert saved_layout.load(path) == FULL and os.listdir(tmp_path / "deep") == ["x.json"]
