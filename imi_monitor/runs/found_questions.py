"""The open questions of agents that imi did not start, which imi can answer because a hook of theirs waits for it."""

from __future__ import annotations

from imi_monitor.fast import json_writer
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused
from imi_monitor.runs import providers
from imi_monitor.runs.provider import WINDOW
from imi_monitor.sources.agents.hooks import question_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.run import Question
    from imi_monitor.runs.provider import Message
    from imi_monitor.sources.agents.hooks.question_hooks import WaitingHook


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """One question. `record` is what the program's provider reads the answer's form from."""

    id: str
    program: str
    session: str
    cwd: str | None
    question: Question
    record: Message


def list_open() -> list[FoundQuestion]:
    """The questions that can be answered now, the first one first."""
    waiting = question_hooks.find(question_hooks.folder_of())
    return [made for one in waiting if question_hooks.is_open(one) and (made := _made(one)) is not None]


def find(ident: str) -> FoundQuestion | None:
    """The open question of this id."""
    return next((one for one in list_open() if one.id == ident), None)


def is_known(ident: str) -> bool:
    """Whether this is the id of such a question, open or not."""
    words = ident.split(".")
    return len(words) == 3 and all(word.isdecimal() for word in words)


def send(asked: FoundQuestion, answer: Message) -> None:
    """Give the waiting hook the answer; Refused if it is too late."""
    for one in question_hooks.find(question_hooks.folder_of()):
        if one.id == asked.id and question_hooks.is_open(one) and one.send(json_writer.dumps(answer).encode()):
            return
    raise Refused("too late: it was answered in its own screen", code="too-late")


def _made(one: WaitingHook) -> FoundQuestion | None:
    record: Message = {"ask": one.id, "hook": one.payload}
    reader = providers.by_name(one.record.cli).reader(WINDOW)
    reader.add_record(record, 0, one.record.at)
    question = next(iter(reader.asks.values()), None)
    if question is None:
        return None
    return FoundQuestion(one.id, one.record.cli, one.record.session, one.record.cwd, question, record)
