"""Settings for all tests of the dashboard."""

from __future__ import annotations

import textual._wait
import textual.app
import textual.pilot

from tests.ui import idle

for module in (textual._wait, textual.app, textual.pilot):
    module.wait_for_idle = idle.wait_for_idle  # type: ignore[attr-defined]
