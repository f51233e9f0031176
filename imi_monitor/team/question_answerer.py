"""Answers the questions of other homes: the registry of this home decides, Redis only carries question and answer.

A grant whose answer is not taken any more is taken back at once. Waiters of other homes get their claim when it is their turn,
and leases that are not renewed end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from imi_monitor import presence, roster
from imi_monitor.git import layout
from imi_monitor.links import retry_loop
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import home, home_rows, team_question
from imi_monitor.model.team_question import HomeAnswer, HomeQuestion
from imi_monitor.store import claims, db, leases, question_answers, registry_identity, repositories
from imi_monitor.store.claim_requests import ClaimTarget
from imi_monitor.store.question_answers import GrantedClaim
from imi_monitor.store.repositories import RepositoryRegistration

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.links.redis_url import RedisAddress
    from imi_monitor.store.async_registry import AsyncRegistry

_TICK_SECONDS = 0.25
_LEASES_EVERY = 1.0
_START = "0-0"


class QuestionAnswerer:
    """Answers for the home `ident`; `report` gets a fault as a sentence, and None when all is well again.

    `may_answer`: this registry is not a copy of the one that answers under this id.
    """

    def __init__(
        self,
        registry: AsyncRegistry,
        database: str,
        address: RedisAddress,
        keys: TeamKeys,
        ident: str,
        lease: float,
        report: Callable[[str | None], None],
        may_answer: Callable[[], bool],
    ) -> None:
        self._registry, self._database, self._ident, self._lease = registry, database, ident, lease
        self._keys, self._report, self._address = keys, report, address
        self._link, self._blocking = RedisLink(address), RedisLink(address, blocking=True)
        self._channel = QuestionChannel(self._link, self._blocking, keys)
        self._may_answer = may_answer
        self._labels: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._at = _START  # the last question that was answered
        self._leases_at = 0.0
        self._unsent: list[GrantedClaim] = []

    def registry_changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(retry_loop.repeat(self._answer_questions, self._address, self._report))
                group.create_task(retry_loop.repeat(self._serve_line, self._address, self._report))
        finally:
            await self._link.close()
            await self._blocking.close()

    async def _answer_questions(self) -> None:
        """Answer the next questions; an asker without an answer has no claim."""
        at, questions = await self._channel.read(self._ident, self._at)
        for question, _age in questions:
            if question is not None and self._may_answer():
                await self._answer(question)
        self._at = at

    async def _serve_line(self) -> None:
        """Grant to waiters whose turn it is, and end leases: on each change of the registry, and as time passes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK_SECONDS):
                await self._changed.wait()
        self._changed.clear()
        now = asyncio.get_running_loop().time()
        if now - self._leases_at >= _LEASES_EVERY:
            self._leases_at = now
            await self._end_leases()
        if await self._registry.read(question_answers.may_grant):
            self._unsent += await self._registry.write(question_answers.grant_waiters, self._lease)
        while self._unsent:  # what a fault of Redis left unsent goes out when the fault is over
            await self._hand_over(self._unsent[0])
            del self._unsent[0]

    async def _end_leases(self) -> None:
        if await self._registry.read(leases.are_due):
            for key in await self._registry.write(leases.end_expired, self._lease):
                await self._mirror(key)

    async def _answer(self, question: HomeQuestion) -> None:
        if not question.act:
            await self._channel.give(question.id, HomeAnswer("newer").encode())
        elif question.act in (team_question.CLAIM, team_question.WAIT):
            await self._answer_claim(question)
        else:
            identities = await self._registry.read(_read_identities)
            answer, released = await self._registry.write(question_answers.answer_own, question, identities)
            for key in released:
                await self._mirror(key)
            if question.act != team_question.LEAVE:
                await self._channel.give(question.id, answer.encode())

    async def _answer_claim(self, question: HomeQuestion) -> None:
        found = await self._registry.read(find_target, question, self._database)
        if isinstance(found, HomeAnswer):
            await self._channel.give(question.id, found.encode())
            return
        shown = f"{question.agent}@{await self._label_of(question.home)}"
        answer = await self._registry.write(question_answers.answer_claim, question, found, shown, self._lease)
        if answer.how == "waits":
            await self._channel.say_waiting(question.id, answer)
            return
        key = (found.repo_name or "", found.name)
        await self._hand_over(GrantedClaim(question.id, question.home, key, answer))

    async def _hand_over(self, granted: GrantedClaim) -> None:
        """Give the answer; a grant that the asker does not wait for any more is taken back.

        After a fault it is unknown whether the asker has read the answer: it is given again, or the lease ends.
        """
        text = granted.answer.encode()
        given = await self._channel.give(granted.question, text)
        if not given and granted.answer.granted and not await self._channel.was_given(granted.question, text):
            await self._registry.write(question_answers.take_back, granted)
        if granted.answer.granted:
            await self._mirror(granted.key)

    async def _label_of(self, ident: str) -> str:
        if ident not in self._labels:
            described = await self._link.hash_fields(self._keys.homes)
            known = [one for key, text in described.items() if (one := home_rows.read_description(key, text))]
            self._labels = home.labels(known)
        return self._labels.get(ident) or ident[:8]

    async def _mirror(self, key: tuple[str, str]) -> None:
        """Update the presence lock of a worktree, which other programs of a cluster read."""
        await asyncio.to_thread(_update_lock, self._database, key)


def find_target(connection: sqlite3.Connection, question: HomeQuestion, database: str) -> ClaimTarget | HomeAnswer:
    """The worktree that a question names, or why there is none to claim."""
    identities, folders = _read_identities(connection), repositories.list_common_dirs(connection)
    rows = {row.name: row for row in repositories.list_repositories(connection)}
    found: list[tuple[ClaimTarget, str | None]] = []
    for name, common_dir in folders.items():
        if identities.get(name) != question.repo or not _is_own(common_dir):
            continue
        repository = layout.repository_at(common_dir)
        for target in roster.list_worktrees(connection, repository, name):
            if target.name != question.worktree:
                continue
            claimed = ClaimTarget(name, target.name, path=target.path, branch=target.branch or "", kind=target.kind)
            if target.row is None:
                row = rows[name]
                claimed.registration = RepositoryRegistration(
                    name,
                    common_dir=common_dir,
                    path=row.path,
                    remote_url=row.remote_url,
                    default_branch=row.default_branch,
                )
            found.append((claimed, presence.presence_lock_path(repository, target.name)))
    if len(found) != 1:
        return HomeAnswer("ambiguous" if found else "no-worktree")
    wanted, lock = found[0]
    owner = presence.foreign_owner(lock, database)
    if owner is not None and claims.current(connection, wanted.repo_name or "", wanted.name).agent_id is None:
        return HomeAnswer("held", owner=owner.agent, since=owner.since, state="held")
    return wanted


def _read_identities(connection: sqlite3.Connection) -> dict[str, str]:
    return repositories.list_identities(connection, registry_identity.registry_id(connection) or "")


def _is_own(common_dir: str) -> bool:
    """Whether the folder exists and is of this user: claims on another user's repository are in that user's registry."""
    try:
        return os.stat(common_dir).st_uid == os.geteuid()
    except OSError:
        return False


def _update_lock(database: str, key: tuple[str, str]) -> None:
    connection = db.connect(database, create=False)
    try:
        common_dir = repositories.list_common_dirs(connection).get(key[0])
        if common_dir is not None and os.path.isdir(common_dir):
            lock = presence.presence_lock_path(layout.repository_at(common_dir), key[1])
            presence.update_presence_lock(connection, lock, *key, database)
    finally:
        db.close(connection)
