"""Settings for all tests of the dashboard."""

from __future__ import annotations

import pytest
import textual._wait
import textual.app
import textual.pilot

from imi_monitor.ui import editor
from tests.ui import idle

for module in (textual._wait, textual.app, textual.pilot):
    module.wait_for_idle = idle.wait_for_idle  # type: ignore[attr-defined]


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int | None]]:
    """What is opened in the editor (root, path, line); the tests of the editor start a real one."""
    files: list[tuple[str, str, int | None]] = []
    monkeypatch.setattr(editor, "edit", lambda _app, root, path, line=None: files.append((root, path, line)))
    return files
