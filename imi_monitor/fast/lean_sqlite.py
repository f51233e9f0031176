"""SQLite for a process that lives for ten milliseconds.

`import sqlite3` takes 3.5 ms, a quarter of an `imi claim`, nearly all of it for things that are not used here: date
adapters, abstract classes, and `functools` with its named tuples, which the C half asks for one thing only, its
statement cache. So the C half is loaded alone, with that one thing, and `functools` stays as it was. Where that cannot
be done, or where `sqlite3` has been loaded anyway, it is the ordinary module; the classes are the same ones.
"""

from __future__ import annotations

import sys

__all__ = ["sqlite3"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any


def _lean() -> Any:
    cached = __import__("_functools")._lru_cache_wrapper
    stand_in: Any = type(sys)("functools")
    stand_in.lru_cache = lambda size: lambda function: cached(function, size, False, tuple)
    sys.modules["functools"] = stand_in
    try:
        module: Any = __import__("_sqlite3")
    finally:
        del sys.modules["functools"]
    module.sqlite_version_info = tuple(map(int, module.sqlite_version.split(".")))
    return module


if not TYPE_CHECKING:
    if "sqlite3" in sys.modules or "functools" in sys.modules:
        import sqlite3
    else:
        try:
            sqlite3 = _lean()
        except (ImportError, AttributeError):  # another interpreter, or another version of this one
            import sqlite3
