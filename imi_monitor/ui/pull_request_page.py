"""The web page of a pull request: its address, and opening it in a browser."""

from __future__ import annotations

import os
import subprocess
import sys

from imi_monitor import programs
from imi_monitor.git import layout
from imi_monitor.model import remote_address
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_TIMEOUT = 10.0


def pull_request_page(path: str, number: int, remote: str = "origin") -> str:
    """`https://…` of the pull request; Refused when the remote is not a forge with web pages."""
    place = layout.discover(path)
    url = layout.remote_url(place.repository, remote) if place is not None else ""
    found = remote_address.parse_address(url) if url else None
    if found is None or not found.host:
        raise Refused(f"pull request {number} cannot be opened: the remote {safe(remote)} is not a hosted forge")
    part = "-/merge_requests" if "gitlab" in found.host.lower() else "pull"
    return f"https://{found.host}/{found.project}/{part}/{number}"


def browse(url: str) -> bool:
    """Open the page; False when there is no browser, as over ssh."""
    program = _program()
    if program is None:
        return False
    done = subprocess.run(
        [program, url],
        capture_output=True,
        timeout=_TIMEOUT,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd="/",
        env=programs.environment(),
    )
    return done.returncode == 0


def _program() -> str | None:
    chosen = os.environ.get("BROWSER", "")
    if chosen and os.pathsep not in chosen and "%" not in chosen and (program := programs.find(chosen)):
        return program
    if sys.platform == "darwin":
        return programs.find("open")
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return programs.find("xdg-open") if screen else None
