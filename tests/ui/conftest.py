"""Settings for all tests of the dashboard."""

from __future__ import annotations

import textual._wait

# Textual's pilot considers an app idle after 20 ms with little CPU use, and asks twice for each key. A quarter of that is
# enough for the dashboard, which does not animate; a third of the time of these tests was spent in these pauses.
textual._wait.SLEEP_GRANULARITY /= 4
textual._wait.SLEEP_IDLE /= 4
