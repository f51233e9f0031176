"""imi's tools for one walled run: `imi mcp` outside of the wall, started with the first call, acting as the run's agent.

It checks each call as it does for any client. Its answers become files in the run folder, where the agent takes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from threading import Thread

from imi_monitor.runs import launch_folder
from imi_monitor.runs.contained import request_folder
from imi_monitor.runs.run_plan import SURROUNDINGS, own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from imi_monitor.store.runs import RunRow


class ToolServer:
    """Answers the calls of one run. It ends with the process that made it, or by `close`."""

    def __init__(self, row: RunRow, database: str) -> None:
        self._row, self._database = row, database
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, ident: str, tool: str, arguments: object) -> None:
        """Pass a call on; its answer comes in a thread."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}
        for _ in range(2):
            process = self._running()
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                return
            self._process = None  # it was killed

    def close(self) -> None:
        """No call comes any more: the server ends itself."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            born = launch_folder.folder_of(self._row.id).birth()
            env = {name: value for name, value in own_environment().items() if name not in SURROUNDINGS}
            if born is not None:
                env["IMI_AGENT_PID"] = str(born.pid)  # a claim made here ends with the agent
            # without the current folder among the places of modules: it is the agent's
            argv = [sys.executable, "-P", "-m", "imi_monitor", "mcp", "--run", self._row.id, "--db", self._database]
            cwd = self._row.cwd if os.path.isdir(self._row.cwd) else "/"
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(argv, cwd=cwd, env=env, **pipes)  # type: ignore[call-overload]
            Thread(target=self._pass_answers, args=(self._process,), daemon=True).start()
        return self._process

    def _pass_answers(self, process: subprocess.Popen[bytes]) -> None:
        output: IO[bytes] = process.stdout  # type: ignore[assignment]
        for line in output:
            with suppress(OSError, ValueError):
                found = json.loads(line)
                request_folder.answer(self._row.folder, str(found["id"]), found.get("result") or found.get("error"))
        process.wait()
