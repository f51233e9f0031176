"""Which running terminal the caller is in: a session of Zellij or tmux, or a plain terminal. Lean: no program is run.

A place is never used twice: pane and session numbers begin anew with each server, so it names the server's process as well.
"""

from __future__ import annotations

import os

from imi_monitor import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ZELLIJ, TMUX, PLAIN = "zellij", "tmux", "terminal"
_MOST_ANCESTORS = 64


class TerminalPlace:
    """A running terminal. `name` is the session's where the environment has it; `server` is a socket of tmux."""

    __slots__ = ("kind", "name", "pane", "server", "text")

    def __init__(self, kind: str, text: str, name: str | None, server: str, pane: str) -> None:
        self.kind = kind
        self.text = text
        self.name = name
        self.server = server
        self.pane = pane


def find(environment: Mapping[str, str] | None = None) -> TerminalPlace | None:
    """The terminal of the caller; None without one."""
    env = os.environ if environment is None else environment
    name = env.get("ZELLIJ_SESSION_NAME")
    if name and env.get("ZELLIJ_PANE_ID"):
        return TerminalPlace(ZELLIJ, _text(ZELLIJ, name, _zellij_server()), name, "", env["ZELLIJ_PANE_ID"])
    socket, pid, session = _tmux(env)
    if socket and env.get("TMUX_PANE"):
        return TerminalPlace(TMUX, _text(TMUX, socket, pid, session), None, socket, env["TMUX_PANE"])
    terminal, leader = _terminal_name(), os.getsid(0)
    if terminal is None or not leader:
        return None
    return TerminalPlace(PLAIN, _text(PLAIN, terminal, leader), terminal, "", "")


def is_over(place: str) -> bool | None:
    """True when the process that held the terminal is proven gone; None if that is unknown."""
    words = place.split("|")
    if len(words) < 5 or not words[3].isdecimal() or words[3] == "0":
        return None
    if words[1] != _boot():
        return True
    started = host.start_time(int(words[3]))
    return started != words[4] if words[4] else started is None


def is_same(place: str, other: str) -> bool:
    """Whether two places have the same kind and the same session name, socket or terminal."""
    return place.split("|")[:1] == other.split("|")[:1] and place.split("|")[2:3] == other.split("|")[2:3]


def _text(kind: str, name: str, pid: int, session: str = "") -> str:
    """`kind|boot|name|pid|start|session`, by which a later process can find out whether it is over."""
    plain = name.replace("|", "/")[:200]
    return "|".join((kind, _boot(), plain, str(pid), (host.start_time(pid) if pid else None) or "", session))


def _boot() -> str:
    return host.boot().partition("/")[0]


def _tmux(env: Mapping[str, str]) -> tuple[str, int, str]:
    words = env.get("TMUX", "").rsplit(",", 2)
    if len(words) != 3 or not words[1].isdecimal() or len(words[1]) > 10:
        return "", 0, ""
    return words[0], int(words[1]), words[2]


def _zellij_server() -> int:
    """The Zellij server above this process; 0 if none is, as below a program with a service of its own."""
    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if pid <= 1:
            return 0
        if host.process_name(pid) == "zellij":
            return pid
        pid = host.parent_pid(pid)
    return 0


def _terminal_name() -> str | None:
    for handle in (0, 1, 2):
        try:
            return os.ttyname(handle)
        except OSError:
            continue
    return None
