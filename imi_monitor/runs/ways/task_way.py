"""Without a terminal: the keeper gives the agent files and a named pipe."""

from __future__ import annotations

import subprocess

from imi_monitor.model.errors import Refused
from imi_monitor.runs import ways
from imi_monitor.runs.run_plan import own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder

_KEEPER_SECONDS = 30.0


def start(folder: LaunchFolder) -> None:
    """Start the keeper, which outlives this process, and wait until the agent runs."""
    with open(folder.file("keeper.log"), "ab") as log:
        process = subprocess.Popen(
            ways.keeper_command(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=own_environment(),
            start_new_session=True,
            close_fds=True,
        )
    try:
        answer = process.communicate(timeout=_KEEPER_SECONDS)[0].decode()
    except subprocess.TimeoutExpired:
        raise Refused("its keeper did not answer", code="keeper") from None
    ways.check_report(answer)
