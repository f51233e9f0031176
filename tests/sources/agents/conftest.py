"""Scenes with agents in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.agents.claude_kit import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
