"""The interface of an agent program that imi can start: one module in `providers/` for each.

A provider is pure where it can be: it returns command lines and messages, and the launcher and the follower act.
"""

from __future__ import annotations

from typing import Protocol

from imi_monitor import programs
from imi_monitor.fast.frozen_dataclass import dataclass, field
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.stream_reader import StreamReader

Message = dict[str, object]

WINDOW, TASK = "window", "task"
WAYS = (WINDOW, TASK)
_LOGIN_SECONDS = 20.0
_LOGGED_OUT = ('"loggedIn": false', "Not logged in")


@dataclass(frozen=True, slots=True)
class Spec:
    """What an agent is started for."""

    program: str  # the path of its executable
    prompt: str
    cwd: str  # empty: its run folder
    session: str  # a new id, for programs that take one
    mode: str  # one of model.run_modes
    model: str | None = None
    flags: tuple[str, ...] = ()  # as typed behind `--`
    resumes: str | None = None  # the session to take up again
    packet: str = ""  # the first prompt of the new session that begins where the program refuses to resume that one
    tools: tuple[str, ...] = ()  # the command line of `imi mcp` for this run; empty: it gets no tools of imi
    walled: bool = False  # imi keeps it inside of its workspace, so its own sandbox is not needed


@dataclass(frozen=True, slots=True)
class Launch:
    """How a program is started: its command line without the prompt, and the messages it gets first."""

    argv: tuple[str, ...]
    session: str | None  # its id, if it is known before the start
    opening: tuple[Message, ...] = ()
    dangerous: tuple[str, ...] = ()  # the given flags that let it act without asking
    env: dict[str, str] = field(default_factory=dict)  # what its environment needs, unless the user has set it
    prompt: tuple[str, ...] = ()  # in a window: the words before the prompt; the last is joined with it
    files: dict[str, str] = field(default_factory=dict)  # name -> text, in the launch folder
    pipe: bool = False  # in a window: it takes messages, as one without a terminal does


class Provider(Protocol):
    """One agent program."""

    name: str
    install: str  # how to install it, for a sentence
    has_window: bool
    reports_cost: bool  # in money
    interrupt_keys: tuple[str, ...]  # in a window that takes no messages
    types_ahead: bool  # whether a window takes a prompt within a turn
    ends_with_turn: bool  # without a terminal it takes one prompt

    def login_question(self) -> tuple[str, ...]:
        """Its own command that says whether its user is logged in; empty if it has none, or there are signs of a login."""

    def start(self, spec: Spec) -> Launch:
        """How to start it. Refused when `spec.resumes` names a session that cannot be taken up."""

    def has_session(self, session: str) -> bool:
        """False if the program certainly has no record of this session."""

    def window(self, spec: Spec, folder: str) -> Launch:
        """How to start its own screen; `folder` is the launch folder. Refused as above, UsageError if it has no window."""

    def reader(self, way: str) -> StreamReader:
        """A new reader of what it writes to its output, or its hooks write there."""

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        """What to send next before the prompt is under way; empty while an answer is awaited, None if nothing is left.

        Where the program refuses to resume, a new session with the packet.
        """

    def answer(self, record: Message, text: str) -> Message:
        """The message that answers the question in this record: yes, no, one of its choices, or a reason to refuse.

        Of a hook in a window: what the hook prints.
        """

    def say(self, read: StreamReader, text: str) -> list[Message]:
        """A prompt for the next turn, or for the running one where the program takes it."""

    def interrupt(self, read: StreamReader) -> list[Message]:
        """End the turn and keep the session; empty if no turn runs."""

    def asked_on(self, screen: str) -> str | None:
        """The text of the question that its terminal shows, where it is answered by keys."""

    def finish(self) -> list[Message]:
        """Its own way to end; empty if it has none."""


def find_program(provider: Provider) -> str:
    """The path of the program; Refused with the way to install it."""
    found = programs.find(provider.name)
    if found is None:
        raise Refused(
            f"{provider.name} {programs.why_missing(provider.name)}: install it with `{provider.install}`",
            code="no-program",
        )
    return found


def refuse_logged_out(provider: Provider, program: str) -> None:
    """Refuse a program that says itself that its user is not logged in: its agent could only fail with its first request."""
    question = provider.login_question()
    if not question:
        return
    import subprocess

    try:
        asked = subprocess.run(
            [program, *question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOGIN_SECONDS,
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # unknown is not logged out
    said = f"{asked.stdout}\n{asked.stderr}"
    if asked.returncode == 1 and any(one in said for one in _LOGGED_OUT):
        words = " ".join((provider.name, *question))
        raise Refused(
            f"{provider.name} is not logged in, as `{words}` says: run `{provider.name}` and log in, then start it again",
            code="not-logged-in",
        )


def launch_of(provider: Provider, spec: Spec, way: str, folder: str) -> Launch:
    """How to start it in this way."""
    return provider.window(spec, folder) if way == WINDOW else provider.start(spec)


def bridged(kind: str, spec: Spec, folder: str, **more: object) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command line of the bridge between a program's server and the run's files, and the file that it reads."""
    import os
    import sys

    from imi_monitor.fast import json_writer

    plan: Message = {
        "kind": kind,
        "program": spec.program,
        "mode": spec.mode,
        "model": spec.model,
        "flags": list(spec.flags),
        "resumes": spec.resumes,
        "tools": list(spec.tools),
        **more,
    }
    # without the current folder among the places of modules: it is a worktree
    argv = (sys.executable, "-P", "-m", "imi_monitor.runs.server_bridge", os.path.abspath(folder))
    return argv, {"bridge.json": json_writer.dumps(plan)}
