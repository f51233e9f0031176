"""What is typed into the window of a started agent: only where its hooks say what it does, so that no text answers a question."""

from __future__ import annotations

import time

from imi_monitor.model.agent import UNKNOWN, WAITING, WORKING
from imi_monitor.model.errors import Refused
from imi_monitor.runs import launch_folder, providers, ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.runs.provider import Message
    from imi_monitor.sources.agents.stream_reader import StreamReader
    from imi_monitor.store.runs import RunRow

_BEFORE_ENTER = 0.5  # seconds; programs take an enter that comes at once for a part of the text
_TAKEN_SECONDS = 3.0
_TRIES = 2
_PROMPTS = (b'"UserPromptSubmit"', b'"kind": "prompt"', b'"chat": "####')
_SUCCESSION = 0.15  # seconds between two presses of a key that belong together
_POLL_SECONDS = 0.05


def answer(row: RunRow, ask: str, message: Message) -> None:
    """Give the answer to the program's server, to the hook that asked, or by a key; Refused if it comes too late."""
    folder = launch_folder.folder_of(row.id)
    if folder.takes_messages():
        folder.send([message])
    elif isinstance(keys := message.get("keys"), list):
        _press_answer(row, folder, keys, str(message["dialog"]))
    else:
        folder.answer(ask, message)


def _press_answer(row: RunRow, folder: LaunchFolder, keys: list[str], asked: str) -> None:
    """Press the keys if the terminal still shows this dialog, and see to it that it is gone then."""
    way = ways.of(folder)

    def is_shown() -> bool:
        return providers.by_name(row.program).asked_on(way.screen(folder)) == asked

    if not is_shown():
        raise Refused("too late: its window does not show this question any more", code="too-late")
    for key in keys:
        way.press(folder, key)
    until = time.monotonic() + _TAKEN_SECONDS
    while is_shown():
        if time.monotonic() > until:
            raise Refused(f"its window still shows the question: look with `imi attach {row.short}`", code="not-taken")
        time.sleep(_POLL_SECONDS)


def say(row: RunRow, read: StreamReader, text: str) -> None:
    """Send a prompt, or type and submit it; Refused if the program did not take it."""
    folder = launch_folder.folder_of(row.id)
    if folder.takes_messages():
        folder.send(providers.by_name(row.program).say(read, text))
        return
    _refuse_unknown(row, read)
    if not read.turn_over and not providers.by_name(row.program).types_ahead:
        raise Refused(
            f"{row.program} takes no prompt within a turn: wait until it is idle, or `imi interrupt {row.short}`",
            code="not-ready",
        )
    way, size = ways.of(folder), _size(folder)
    way.type(folder, text)
    for _ in range(_TRIES):
        time.sleep(_BEFORE_ENTER)
        way.press(folder, "Enter")
        if not read.turn_over or _took(folder, size):  # within a turn it is taken up later
            return
    raise Refused(f"it is typed, but not taken: look into its window with `imi attach {row.short}`", code="not-taken")


def interrupt(row: RunRow, read: StreamReader) -> None:
    """End the turn, or press the keys for it; Refused if no turn runs."""
    folder = launch_folder.folder_of(row.id)
    if folder.takes_messages():
        messages = providers.by_name(row.program).interrupt(read)
        if not messages:
            raise Refused(f"{row.short} has no turn to interrupt: it is {row.shown_state}", code="no-turn")
        folder.send(messages)
        return
    _refuse_unknown(row, read)
    if read.state not in WORKING:
        raise Refused(f"{row.short} has no turn to interrupt: it is {row.shown_state}", code="no-turn")
    way = ways.of(folder)
    for number, key in enumerate(providers.by_name(row.program).interrupt_keys):
        time.sleep(_SUCCESSION if number else 0)
        way.press(folder, key)


def _refuse_unknown(row: RunRow, read: StreamReader) -> None:
    where = f"type it in its window: `imi attach {row.short}`"
    if read.state in (None, UNKNOWN):
        raise Refused(f"what {row.program} shows in its window is unknown: {where}", code="not-ready")
    if read.state == WAITING:
        raise Refused(
            f"it asks a question, which a text would answer: `imi answer {row.short}`, or {where}", code="asks"
        )


def _size(folder: LaunchFolder) -> int:
    position = 0
    while data := folder.read_output(position, 1 << 20):
        position += len(data)
    return position


def _took(folder: LaunchFolder, position: int) -> bool:
    """Whether the program reports a new prompt after this place of its output."""
    until = time.monotonic() + _TAKEN_SECONDS
    while not any(sign in folder.read_output(position, 1 << 20) for sign in _PROMPTS):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True
