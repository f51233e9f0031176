"""Paths of our own files. The registry is where iMi has it; everything else follows the XDG directories."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def home() -> str:
    return os.path.expanduser("~")


def _xdg(variable: str, *default: str) -> str:
    value = os.environ.get(variable, "")
    # by the XDG specification, a relative path in these variables must be ignored
    return value if os.path.isabs(value) else os.path.join(home(), *default)


def config_dir() -> str:
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config"), "iMi")


def config_file() -> str:
    return os.environ.get("IMI_CONFIG") or os.path.join(config_dir(), "config.toml")


def default_database() -> str:
    # iMi 2.0.2 ignores XDG_CONFIG_HOME for its database, and both programs must find the same file
    return os.path.join(home(), ".config", "iMi", "iMi.db")


def state_dir() -> str:
    return os.path.join(_xdg("XDG_STATE_HOME", ".local", "state"), "imi")


def data_dir() -> str:
    return os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "imi")


def watched_file() -> str:
    """Return the list of the folders of other programs that `imi workspace watch` has added."""
    return os.path.join(data_dir(), "watched.json")


def hooks_dir(of_home: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return the folder of the hook program that agents call, and of its spool."""
    if of_home is None or env is None:
        return os.path.join(state_dir(), "hooks")
    state = env.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.join(of_home, ".local", "state")
    return os.path.join(base, "imi", "hooks")


def edits_dir() -> str:
    """Return the folder of what hooks say about files that other worktrees have changed."""
    return os.path.join(state_dir(), "edits")


def error_log() -> str:
    return os.path.join(state_dir(), "errors.log")


def styles_dir() -> str:
    """Return the folder of the dashboard's style sheets: inside an installed package, beside it in a checkout."""
    package = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(package, "styles")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "styles")


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """Return values of a file that differ after a write or an exchange; None if there is no file."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino
