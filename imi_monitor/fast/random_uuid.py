"""Random version 4 UUIDs as text without `uuid`: saves 7 ms of `imi claim`."""

from __future__ import annotations

import os


def new_id() -> str:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
