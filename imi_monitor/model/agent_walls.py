"""The levels of the wall around a started agent, as rows and JSON show them."""

from __future__ import annotations

NO_WALL = "off"
WALLED = ("write", "strict")
