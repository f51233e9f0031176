"""The start-up replacements of `imi_monitor/fast` and the late imports of the dashboard, each with and without, in one run.

Values are milliseconds of processor time of a whole process, which other processes disturb less than elapsed time. The
floor of each row is the same command with the replacement. A replacement stays if it saves 2 ms, or if `imi claim`
needs it for its budget of twice `python -I -c pass`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence

from bench.claims import _repository
from bench.common import PYTHON, Row, process, ratio

_ROUNDS = 41
_AGENT = ("feat-x", "--agent", "bench")
_CLAIM, _RELEASE, _VERIFY = (("claim", *_AGENT), ("release", *_AGENT), ("verify-lock", *_AGENT, "--json"))
_MODELS = (
    "import imi_monitor.model.snapshot, imi_monitor.model.agent, imi_monitor.model.columns, imi_monitor.sources.source"
)
_STANDARD = (
    "import dataclasses, imi_monitor.fast.frozen_dataclass as m;"
    "m.dataclass, m.field = dataclasses.dataclass, dataclasses.field"
)
_LIST, _STATUS = ("list",), ("status",)
_APP = "import imi_monitor.ui.app"
_LATE = f"from imi_monitor.ui import late_imports\nwith late_imports.stand_ins():\n    {_APP}"
# (name, code that undoes one replacement before the command starts, command)
WITHOUT = (
    ("claim: sqlite3 instead of lean_sqlite", "import sqlite3", _CLAIM),
    ("claim: json instead of json_writer", "import json", _CLAIM),
    ("claim: uuid instead of random_uuid", "import uuid", _CLAIM),
    ("claim: interpreter shutdown instead of os._exit", "import atexit", _CLAIM),
    ("claim: default garbage collection", "import gc; gc.set_threshold = lambda *_: None", _CLAIM),
    ("verify-lock: tomllib instead of the scan", "import tomllib", _VERIFY),
    ("claim: tomllib instead of the plain parser", "import tomllib", _CLAIM),
    ("release: signal instead of _signal", "import signal", _RELEASE),
    ("list: dataclasses instead of frozen_dataclass", "import dataclasses", _LIST),
    ("list: json instead of json_reader", "import json", _LIST),
    ("list: contextlib instead of lean_suppress", "import contextlib", _LIST),
    ("status: concurrent.futures instead of thread_map", "import concurrent.futures.thread", _STATUS),
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
        repository, env = _repository(folder)
        process([PYTHON, "-m", "imi_monitor", *_CLAIM], env, repository)
        commands = {words[0]: _command("pass", words) for words in (_CLAIM, _VERIFY, _RELEASE, _LIST, _STATUS)}
        commands |= {name: _command(first, words) for name, first, words in WITHOUT}
        commands |= {"empty": [PYTHON, "-I", "-c", "pass"], "models": [PYTHON, "-c", _MODELS]}
        commands |= {"app": [PYTHON, "-c", _APP], "app with late imports": [PYTHON, "-c", _LATE]}
        commands["standard models"] = [PYTHON, "-c", f"{_STANDARD}; {_MODELS}"]
        times = _processor_times(commands, env, repository)
    rows = [ratio(f"imi {verb}", times[verb], times["empty"], "python -I -c pass") for verb in ("claim", "release")]
    rows += [ratio(name, times[name], times[words[0]], "with the replacement") for name, _, words in WITHOUT]
    name = "dashboard: all imports of Textual instead of late_imports"
    rows.append(ratio(name, times["app"], times["app with late imports"], "with the replacement"))
    name = "models: dataclasses instead of frozen_dataclass"
    return [*rows, ratio(name, times["standard models"], times["models"], "with the replacement")]


def _command(first: str, words: Sequence[str]) -> list[str]:
    argv = ["imi", *words]
    return [
        PYTHON,
        "-c",
        f"{first}; import sys; sys.argv = {argv}; from imi_monitor.__main__ import main; sys.exit(main())",
    ]


def _processor_times(commands: dict[str, list[str]], env: dict[str, str], cwd: str) -> dict[str, float]:
    """The median processor milliseconds of each command, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    here, null = os.getcwd(), os.open(os.devnull, os.O_RDWR)
    env = {**env, "PYTHONPATH": here}
    os.chdir(cwd)
    try:
        for _ in range(_ROUNDS):
            for name, argv in commands.items():
                pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
                _, status, used = os.wait4(pid, 0)
                if status:
                    raise RuntimeError(f"{name}: {status}")
                times[name].append((used.ru_utime + used.ru_stime) * 1000)
    finally:
        os.chdir(here)
    return {name: statistics.median(each) for name, each in times.items()}
