"""Signal numbers and masks without `signal`, which imports enum: saves 4.5 ms of `imi release`."""

from __future__ import annotations

__all__ = ["SIGINT", "SIGKILL", "SIGPIPE", "SIGTERM", "SIGXFSZ", "SIG_BLOCK", "SIG_SETMASK", "pthread_sigmask"]

try:
    from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, pthread_sigmask  # type: ignore[import-not-found]
except ImportError:  # not CPython
    from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, pthread_sigmask
