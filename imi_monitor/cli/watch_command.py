"""`imi watch`: snapshots and changes as a stream of JSON objects."""

from __future__ import annotations

from imi_monitor.actions.action import Option
from imi_monitor.cli.front_end import REPOSITORIES, FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine


class WatchVerb(FrontEndVerb):
    words = ("watch",)
    group = "Status"
    label = "Watch"
    examples = (("imi watch --once", "the state as one JSON object"),)
    help = "stream the state and then every change, one JSON object per line"
    more = """
    Without REPO: the repository around you, or all registered ones. It ends with Ctrl-C or when its reader goes away.
    For people: `imi status --watch`.
    """
    arguments = (REPOSITORIES,)
    options = (
        Option("interval", "the shortest time between two batches of changes", value="SECONDS", number=True),
        Option("once", "send the first state only, when every worktree is read"),
    )
    streams = True

    def show(self, parsed: ParsedCommandLine) -> int:
        from imi_monitor.cli import snapshot_stream

        return snapshot_stream.run(parsed)


ACTIONS = (WatchVerb(),)
