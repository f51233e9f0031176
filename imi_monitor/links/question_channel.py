"""Carries questions to other homes and their answers. An answer is given once: by the home, or by the asker that gives up.

Redis is only the carrier. A lost question, a lost answer and a server that lost its data all mean "not granted".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from imi_monitor import host
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.links import redis_link
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import team_question
from imi_monitor.model.team_question import HomeAnswer, HomeQuestion

_MOST_QUESTIONS, _QUESTION_SECONDS, _ANSWER_SECONDS = 5000, 3600, 60
_LOOK_SECONDS = 1.0  # an answer whose bell was lost is found so late
_STOP_SECONDS = 0.2
_ASK = """
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'q', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
_ANSWER = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 0 end
redis.call('LPUSH', KEYS[2], '1')
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
"""
_SAY_WAITING = """
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('LPUSH', KEYS[2], '1')
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
"""


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer; `since` is a moment before the home decided, by this machine's uptime."""

    answer: HomeAnswer
    since: float


class QuestionChannel:
    """`blocking` is a connection of its own for reads that wait."""

    def __init__(self, link: RedisLink, blocking: RedisLink, keys: TeamKeys) -> None:
        self._link, self._blocking, self._keys = link, blocking, keys

    # -- the asker's side -----------------------------------------------------------------------------------------------

    async def ask(self, home: str, question: HomeQuestion) -> ReadAnswer | None:
        """Ask and wait for the answer as long as a home takes; None: there is none, and none will have an effect."""
        return await self.wait(home, question, team_question.PATIENCE, lambda: False, lambda answer: None)

    async def wait(
        self,
        home: str,
        question: HomeQuestion,
        seconds: float,
        stopped: Callable[[], bool],
        report: Callable[[HomeAnswer], None],
    ) -> ReadAnswer | None:
        """Ask, and wait in line for at most so long; the home has to say within its time that it has read the question.

        A waiter that the home has put in line keeps its place through a fault of the server: it asks again by the same id.
        `report` gets the home's word that the question waits, each time it is given.
        """
        began = host.uptime()
        asked, heard, ask_again = [began], "", False
        pause = redis_link.RetryPause()
        await self._send(home, question)
        while True:
            try:
                if ask_again:
                    question = question.again()
                    asked.append(host.uptime())
                    await self._send(home, question)
                text = await self._look(question.id, stopped)
                if text is not None:
                    return _read(text, asked)
                said = (
                    await self._link.value(self._keys.waiting(question.id))
                    if question.act == team_question.WAIT
                    else None
                )
            except redis_link.FAULTS:
                if not heard or host.uptime() - began >= seconds or stopped():
                    raise
                ask_again = True  # the server may have lost the question
                await asyncio.sleep(pause.next())
                continue
            pause.reset()
            if said is not None and said != heard:
                heard = said
                place = team_question.read_answer(said)
                if place is not None:
                    report(place)
            now = host.uptime()
            silent = not heard and now - began >= team_question.PATIENCE
            if silent or now - began >= seconds or stopped():
                return await self._give_up(home, question, asked)
            ask_again = question.act == team_question.WAIT and now - asked[-1] >= team_question.REPEAT

    async def _send(self, home: str, question: HomeQuestion) -> None:
        await self._link.script(
            _ASK, [self._keys.questions(home)], [question.encode(), _MOST_QUESTIONS, _QUESTION_SECONDS]
        )

    async def _look(self, question: str, stopped: Callable[[], bool]) -> str | None:
        """The answer, or None after a while without one."""
        bell = asyncio.ensure_future(self._blocking.wait_for(self._keys.bell(question), _LOOK_SECONDS))
        while not bell.done():
            await asyncio.wait((bell,), timeout=_STOP_SECONDS)
            if stopped():
                break
        if bell.done():
            bell.result()
        found = await self._link.value(self._keys.answer(question))
        if not bell.done():
            await asyncio.wait((bell,))  # a cancelled wait lives on at the server and takes the next bell
            bell.exception()
        return found

    async def _give_up(self, home: str, question: HomeQuestion, asked: list[float]) -> ReadAnswer | None:
        """Write in the answer's place that none is waited for; if the home was first, its answer counts."""
        first = await self.give(question.id, team_question.GONE)
        text = None if first else await self._link.value(self._keys.answer(question.id))
        found = _read(text, asked) if text is not None else None
        if found is None and question.act == team_question.WAIT:
            await self._send(home, HomeQuestion(question.id, team_question.LEAVE, question.home))
        return found

    # -- the home's side ------------------------------------------------------------------------------------------------

    async def give(self, question: str, text: str) -> bool:
        """Give the answer; False if the asker has given up, or the answer was given before."""
        keys = [self._keys.answer(question), self._keys.bell(question)]
        return bool(await self._link.script(_ANSWER, keys, [text, _ANSWER_SECONDS]))

    async def say_waiting(self, question: str, answer: HomeAnswer) -> None:
        """Say that the question has been read and waits in line."""
        keys = [self._keys.waiting(question), self._keys.bell(question)]
        await self._link.script(_SAY_WAITING, keys, [answer.encode(), int(2 * team_question.REPEAT)])

    async def was_given(self, question: str, text: str) -> bool:
        """Whether exactly this answer is there."""
        return await self._link.value(self._keys.answer(question)) == text

    async def read(self, home: str, entry: str) -> tuple[str, list[tuple[HomeQuestion | None, float]]]:
        """The questions behind this entry with their ages in seconds, and the new last entry; waits a second for the first.

        After a loss of the server's data it begins anew: `0-0`.
        """
        key = self._keys.questions(home)
        entries = await self._blocking.read_after(key, entry)
        if not entries:
            last = await self._link.last_entry(key)
            emptied = redis_link.entry_order(last) < redis_link.entry_order(entry)
            return ("0-0" if emptied else entry), []
        now = await self._link.now_ms()
        found = []
        for ident, fields in entries:
            age = max(0.0, (now - redis_link.entry_order(ident)[0]) / 1000)
            question = team_question.read_question(fields.get("q", "")) if age <= team_question.PATIENCE else None
            found.append((question, age))
        return entries[-1][0], found


def _read(text: str, asked: list[float]) -> ReadAnswer | None:
    """The answer with the moment of the repetition that the home had read."""
    answer = team_question.read_answer(text)
    if answer is None:
        return None
    return ReadAnswer(answer, asked[min(max(answer.number, 1), len(asked)) - 1])
