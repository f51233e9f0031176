"""The `sqlite3` module without its Python half: saves 3 ms of `imi claim`, which its budget needs.

The Python half defines date adapters and imports abstract classes and `functools`, from which the C half needs only the
cache of statements. So the C half is loaded alone with a stand-in for `functools`, which is removed again. Where that
fails, or `sqlite3` is loaded already, this is the ordinary module; the classes are the same.
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
