"""The living holder of a claim: whether a caller with the owner's name is it, or another process of the same name.

A claim stores the process that holds it, if one was named, and the session from which it was claimed: one line per mark,
`<kind>:<value>`, the strongest first. A caller is the holder if it belongs to the process tree of the stored process, or if
its session is the same. Lean: agents run the claim verbs all day.
"""

from __future__ import annotations

import os

from imi_monitor import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.store.claims import Claim

_GIVEN = "given"  # --session or IMI_SESSION_ID
_LEADER = "process"  # the leader of the kernel's session: the shell of a terminal, or a daemon
_AGENT_SESSIONS = (("claude", "CLAUDE_CODE_SESSION_ID"), ("codex", "CODEX_THREAD_ID"), ("gemini", "GEMINI_SESSION_ID"))
_ORDER = (_GIVEN, *(kind for kind, _ in _AGENT_SESSIONS), "zellij", "tmux", _LEADER)
_MOST_CHARS = 200
_MOST_ANCESTORS = 64


class Caller:
    """The process that asks: `pid` is the agent's process if it is named; `session` are the marks by kind."""

    __slots__ = ("_ancestors", "pid", "session")

    def __init__(self, pid: int | None, session: dict[str, str]) -> None:
        self.pid = pid
        self.session = session
        self._ancestors: frozenset[int] | None = None

    def is_below(self, pid: int) -> bool:
        """Whether the agent's process, or the asking one if none is named, is `pid` or descends from it."""
        if self._ancestors is None:
            self._ancestors = frozenset(_with_ancestors(self.pid or os.getpid()))
        return pid in self._ancestors

    def is_above(self, pid: int) -> bool:
        """Whether `pid` descends from the agent's process."""
        return self.pid is not None and self.pid in _with_ancestors(pid)


def identify_caller(given: str | None, pid: int | None) -> Caller:
    """The caller, with the session that the command line, the environment and the kernel tell."""
    marks: dict[str, str] = {}
    _add(marks, _GIVEN, given)
    for kind, variable in _AGENT_SESSIONS:
        _add(marks, kind, os.environ.get(variable))
    pane = os.environ.get("ZELLIJ_PANE_ID")
    if pane:
        _add(marks, "zellij", f"{os.environ.get('ZELLIJ_SESSION_NAME', '')}/{pane}")
    pane, server = os.environ.get("TMUX_PANE"), os.environ.get("TMUX", "").split(",")
    if pane and len(server) > 1:
        _add(marks, "tmux", f"{server[1]}/{pane}")
    leader = os.getsid(0)
    started = host.start_time(leader) if leader else None
    if started is not None:
        _add(marks, _LEADER, f"{leader}/{started}")
    return Caller(pid, marks)


def is_agent_session() -> bool:
    """Whether the environment is that of an agent's session."""
    return any(os.environ.get(variable) for _, variable in _AGENT_SESSIONS)


def holds(claim: Claim, caller: Caller) -> bool:
    """Whether the caller, who says the owner's name, is the holder; True if nothing is known against it.

    A process that is not proven dead is the holder: another named process is not, unless one descends from the other or the
    caller gives the stored session. A caller that names no process may also be in the same terminal or agent session.
    """
    if claim.foreign or proves_session(claim, caller):
        return True  # another program's claim says no more than the name
    if claim.pid is not None:
        alive = host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started)
        if alive and (caller.is_below(claim.pid) or caller.is_above(claim.pid)):
            return True
        if alive is not False:
            return caller.pid is None and _same_session(claim, caller) is True
    return _same_session(claim, caller) is not False


def proves_session(claim: Claim, caller: Caller) -> bool:
    """Whether the caller gives the stored session: the name it was given, or one of its marks."""
    given = caller.session.get(_GIVEN)
    return given is not None and (given == _marks(claim).get(_GIVEN) or given in (claim.session or "").split("\n"))


def shown_session(claim: Claim) -> str | None:
    """Return what `--session` takes to prove the session of this claim; None when it is unknown."""
    marks = _marks(claim)
    if _GIVEN in marks:
        return marks[_GIVEN]
    return claim.session.split("\n")[0] if claim.session else None


def agent_sessions(claim: Claim) -> tuple[str, ...]:
    """The ids of the agent programs' sessions from which the worktree was claimed."""
    marks = _marks(claim)
    return tuple(marks[kind] for kind in (_GIVEN, *(kind for kind, _ in _AGENT_SESSIONS)) if kind in marks)


def stored_session(caller: Caller) -> str | None:
    """The caller's session as a claim stores it."""
    return _text(caller.session)


def renewed_session(claim: Claim, caller: Caller) -> str | None:
    """The session after a renewal by the holder: nothing that is known is lost, unless the holder proves that it moved."""
    kept = {} if proves_session(claim, caller) else _marks(claim)
    if _LEADER in kept and _leader_is_alive(claim, kept[_LEADER]) is False:
        del kept[_LEADER]
    return _text({**caller.session, **kept})


def _same_session(claim: Claim, caller: Caller) -> bool | None:
    """Compare the sessions by the strongest mark that both have; None if unknown, or if the claiming session is over."""
    stored = _marks(claim)
    if not stored:
        return None
    kind = next((kind for kind in _ORDER if kind in stored and kind in caller.session), None)
    if kind is None:
        return False
    if kind != _LEADER:
        return stored[kind] == caller.session[kind]
    value = stored[kind]
    alive = _leader_is_alive(claim, value)
    if alive:
        return value == caller.session[kind] or caller.is_below(_leader_pid(value))
    over = alive is False and all(other == _LEADER for other in stored)
    return None if over else False


def _leader_is_alive(claim: Claim, leader: str) -> bool | None:
    return host.is_alive(claim.host, claim.boot, _leader_pid(leader), leader.partition("/")[2] or None)


def _leader_pid(leader: str) -> int:
    pid = leader.partition("/")[0]
    return int(pid) if pid.isdecimal() and pid.isascii() else 0


def _marks(claim: Claim) -> dict[str, str]:
    marks: dict[str, str] = {}
    for line in (claim.session or "").split("\n"):
        kind, separator, value = line.partition(":")
        if separator:
            marks[kind] = value
    return marks


def _text(marks: dict[str, str]) -> str | None:
    return "\n".join(f"{kind}:{marks[kind]}" for kind in _ORDER if kind in marks) or None


def _add(marks: dict[str, str], kind: str, value: str | None) -> None:
    """Add a mark; one that cannot be stored in a line is left out."""
    if value and value.isprintable() and len(value) <= _MOST_CHARS:
        marks[kind] = value


def _with_ancestors(pid: int) -> Iterator[int]:
    for _ in range(_MOST_ANCESTORS):
        if pid < 1:
            return
        yield pid
        pid = host.parent_pid(pid)
