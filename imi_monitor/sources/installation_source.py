"""Whether imi itself was upgraded or removed while this process runs."""

from __future__ import annotations

from imi_monitor import installation
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext

_INTERVAL = 2.0


class InstallationSource(Source):
    """Reports only a failure, and its end."""

    name = "installation"

    async def run(self, receiver: ReadingReceiver) -> None:
        from imi_monitor.sources.timers import sleep_aligned

        reported = False
        while True:
            problem = installation.problem()
            if problem is not None:
                receiver.set_failure(self.name, "imi itself", problem)
            elif reported:
                receiver.set_healthy(self.name)
            reported = problem is not None
            await sleep_aligned(_INTERVAL)


def make_source(_context: SourceContext) -> InstallationSource:
    return InstallationSource()
