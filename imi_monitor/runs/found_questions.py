"""The open questions of agents that imi did not start, which imi can answer: a hook waits for it, or a server takes it."""

from __future__ import annotations

from imi_monitor.fast import json_writer
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.runs import providers
from imi_monitor.runs.provider import WINDOW
from imi_monitor.sources.agents.codex import thread_questions
from imi_monitor.sources.agents.hooks import question_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.model.run import Question
    from imi_monitor.runs.provider import Message
    from imi_monitor.sources.agents.codex.thread_questions import ThreadQuestion
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
    return [*_of_hooks(), *_of_threads()]


def find(ident: str) -> FoundQuestion | None:
    """The open question of this id."""
    found = _of_threads(ident) if _is_of_thread(ident) else (one for one in _of_hooks() if one.id == ident)
    return next(iter(found), None)


def is_known(ident: str) -> bool:
    """Whether this is the id of such a question, open or not."""
    words = ident.split(".")
    return _is_of_thread(ident) or (len(words) == 3 and all(word.isdecimal() for word in words))


def send(asked: FoundQuestion, answer: Message) -> None:
    """Give the waiting hook or the server the answer; Refused if it is too late."""
    if _is_of_thread(asked.id):
        if thread_questions.answer(asked.id, answer):
            return
        raise Refused("too late: it was answered in its own screen", code="too-late")
    for one in question_hooks.find(question_hooks.folder_of()):
        if one.id == asked.id and question_hooks.is_open(one) and one.send(json_writer.dumps(answer).encode()):
            return
    raise Refused("too late: it was answered in its own screen", code="too-late")


def _is_of_thread(ident: str) -> bool:
    return ident.startswith(f"{thread_questions.PREFIX}.")


def _of_hooks() -> Iterator[FoundQuestion]:
    for one in question_hooks.find(question_hooks.folder_of()):
        made = _made(one) if question_hooks.is_open(one) else None
        if made is not None:
            yield made


def _of_threads(ident: str | None = None) -> list[FoundQuestion]:
    return [made for one in thread_questions.find(ident) if (made := _made_of_thread(one)) is not None]


def _made_of_thread(one: ThreadQuestion) -> FoundQuestion | None:
    reader = providers.by_name("codex").reader(WINDOW)
    reader.add_record(one.record, 0, times.stamp())
    question = next(iter(reader.asks.values()), None)
    return None if question is None else FoundQuestion(one.id, "codex", one.thread, one.cwd, question, one.record)


def _made(one: WaitingHook) -> FoundQuestion | None:
    given = one.payload.get("record")  # of a program whose plugin passes on what its server says
    record: Message = given if isinstance(given, dict) else {"ask": one.id, "hook": one.payload}
    reader = providers.by_name(one.record.cli).reader(WINDOW)
    reader.add_record(record, 0, one.record.at)
    question = next(iter(reader.asks.values()), None)
    if question is None:
        return None
    return FoundQuestion(one.id, one.record.cli, one.record.session, one.record.cwd, question, record)
