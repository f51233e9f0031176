"""The dashboard is listed as `imi`, not as python."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from pathlib import Path
from imi_monitor.ui import process_title

process_title.set_title(sys.argv[1])
sys.stdout.write(Path("/proc/self/cmdline").read_text().rstrip("\\0").replace("\\0", " "))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize(
    ("words", "listed"), [(["imi", "--db", "x.db"], "imi imi --db x.db"), (["a-name-that-has-no-room" * 100], None)]
)
def test_a_process_is_listed_by_its_title_where_that_has_room(words: list[str], listed: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == listed if listed else done.stdout.startswith(sys.executable)
