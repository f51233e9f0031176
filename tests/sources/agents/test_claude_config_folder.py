"""Which folders of Claude Code are watched: those that exist, and new ones as soon as a file event names them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.sources.agents.claude_kit import Scene


def test_a_missing_folder_is_watched_after_a_file_event_for_it(scene: Scene) -> None:
    claude = scene.claude("s1")
    claude.prompt("go")
    scene.read(whole=True)
    below = os.path.realpath(scene.config / "projects" / Path(claude.transcript).parent.name / "s1" / "subagents")
    assert below not in scene.reader.watch_folders(scene.world)
    os.makedirs(below)
    assert below not in scene.reader.watch_folders(scene.world), "the folders were checked a moment ago"
    scene.read()  # the event for the new folder
    assert below in scene.reader.watch_folders(scene.world)
