"""The lean way to SQLite: the same classes, a working statement cache, and `functools` untouched afterwards."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers import ROOT

_LEAN = """
import sys
assert "functools" not in sys.modules, "this interpreter has it loaded from the start: nothing to see"
from imi_monitor.fast.lean_sqlite import sqlite3 as lean
assert lean.__name__ == "_sqlite3" and "functools" not in sys.modules and "sqlite3" not in sys.modules
connection = lean.connect(":memory:", cached_statements=2)
for number in range(50):
    for sql in ("SELECT ?", "SELECT ? + 1", "SELECT ? + 2", "SELECT 7"):
        connection.execute(sql, () if sql == "SELECT 7" else (number,)).fetchall()
try:
    connection.execute("SELECT nothing")
except lean.OperationalError as error:
    assert error.sqlite_errorcode == lean.SQLITE_ERROR
import functools, sqlite3
assert functools.lru_cache(maxsize=1)(len)("abc") == 3 and hasattr(functools, "partial")
assert lean.Connection is sqlite3.Connection and lean.Error is sqlite3.Error
assert lean.sqlite_version_info == sqlite3.sqlite_version_info
assert sqlite3.connect(":memory:").execute("SELECT 1").fetchone() == (1,)
print("well")
"""


def test_the_c_half_alone_is_the_same_sqlite() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{_LEAN}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("well", "")


def test_lean_sqlite_is_sqlite3_where_that_is_loaded() -> None:
    import sqlite3

    from imi_monitor.fast import lean_sqlite

    assert lean_sqlite.sqlite3.Connection is sqlite3.Connection
