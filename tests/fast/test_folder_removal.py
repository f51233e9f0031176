"""`remove_folder` deletes what `shutil.rmtree` deletes, and nothing that a link leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor.fast.folder_removal import remove_folder


def test_a_folder_goes_with_all_in_it_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "work.py").write_text("x")
    doomed = tmp_path / "doomed"
    (doomed / "logs" / "refs").mkdir(parents=True)
    (doomed / "logs" / "refs" / "HEAD").write_text("x")
    (doomed / os.fsdecode(b"odd\xff\n")).write_text("x")
    (doomed / "link").symlink_to(kept)
    (doomed / "broken").symlink_to("nowhere")
    os.mkfifo(doomed / "pipe")
    remove_folder(str(doomed))
    assert not doomed.exists() and (kept / "work.py").read_text() == "x"


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(NotADirectoryError):
        remove_folder(str(tmp_path / "link"))
    assert (tmp_path / "kept" / "file").exists()
