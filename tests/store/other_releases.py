"""Another release of imi, which has other migrations of the registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from imi_monitor.store import schema


@contextmanager
def release_with(migrations: tuple[str, ...]) -> Iterator[None]:
    """This process is the release that has these migrations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", migrations)
        patch.setattr(schema, "VERSION", len(migrations))
        yield
