"""A plugin of pytest: runs given tests in a given order, or records which statements each test executes.

Its variables name files: MUTANTS_TESTS the list of tests, MUTANTS_AREA what all processes share, MUTANTS_REACHED the record.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the list, in its order."""
    listed = os.environ.get("MUTANTS_TESTS")
    if listed:
        order = {name: number for number, name in enumerate(Path(listed).read_text().split("\n"))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Add one line to the record: the test, its seconds, the numbers of the statements."""
    name = os.environ.get("MUTANTS_AREA")
    if not name:
        return (yield)
    with open(name, "r+b") as file, mmap.mmap(file.fileno(), 0) as area:
        area[:] = bytes(len(area))
        began = time.monotonic()
        try:
            return (yield)
        finally:
            reached = [number for number, byte in enumerate(area[:]) if byte]
            with open(os.environ["MUTANTS_REACHED"], "a") as record:
                record.write(json.dumps([item.nodeid, round(time.monotonic() - began, 3), reached]) + "\n")
