"""The lean `suppress` ends a block at the named errors only."""

from __future__ import annotations

import pytest

from imi_monitor.fast.lean_suppress import suppress


def test_only_the_named_errors_are_suppressed() -> None:
    with suppress(KeyError, OSError):
        raise FileNotFoundError("gone")
    with suppress(OSError):
        done = True
    assert done
    with pytest.raises(ValueError), suppress(KeyError, OSError):
        raise ValueError("other")
