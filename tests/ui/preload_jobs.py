"""What the tests have done ahead, in a process that knows Python's own library and nothing installed beside it."""

from __future__ import annotations

import os
import time


def twice(text: str, number: int) -> str:
    return text * number


def nothing() -> None:
    return None


def broken() -> None:
    raise RuntimeError("nothing")


def late() -> str:
    time.sleep(3600)  # who waits for its end, instead of ending it, waits too long
    return "late"


def cut_short() -> None:
    """As when it is killed in the middle of its answer."""
    os.write(1, b"\x80\x05\x95")
    os._exit(9)
