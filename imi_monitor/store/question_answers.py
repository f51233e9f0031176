"""What this home decides about the questions of other homes: each in one transaction, with its effect at most once.

A claim that is granted is a lease. The answer is kept: a question that is read twice gets the same answer without a second
effect. The functions that write run inside `db.transact`.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import team_question
from imi_monitor.model.errors import Refused
from imi_monitor.model.team_question import HomeAnswer, HomeQuestion
from imi_monitor.store import claim_queue, claim_requests, claims, leases
from imi_monitor.store.claim_holder import Caller
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from imi_monitor.store.claim_queue import WaiterRow
    from imi_monitor.store.claim_requests import ClaimAnswer, ClaimTarget

_KEPT = 20_000  # answers


class GrantedClaim:
    """A grant whose answer has not been sent yet: it is taken back if the asker does not wait for it any more."""

    __slots__ = ("answer", "home", "key", "question")

    def __init__(self, question: str, home: str, key: tuple[str, str], answer: HomeAnswer) -> None:
        self.question = question
        self.home = home
        self.key = key
        self.answer = answer


def known_answer(connection: sqlite3.Connection, question: str) -> HomeAnswer | None:
    """The answer that this question got before. Reads only."""
    row = connection.execute("SELECT answer FROM answers WHERE question = ?", (question,)).fetchone()
    return None if row is None else team_question.read_answer(str(row[0]))


def answer_claim(
    connection: sqlite3.Connection, question: HomeQuestion, target: ClaimTarget, shown: str, lease: float
) -> HomeAnswer:
    """Grant the claim as a lease, or say why not; who waits joins the line. `shown` is the asker's name in this home."""
    known = known_answer(connection, question.id)
    if known is not None:
        return known
    request, seq = _request(question.home, shown, question.task), None
    key = (target.repo_name or "", target.name)
    if question.act == team_question.WAIT:
        seq = next((one.seq for one in claim_queue.list_from_homes(connection) if one.question == question.id), None)
    try:
        claim_requests.refuse_missing(connection, target)
        if seq is None:
            answered = claim_requests.claim_target(connection, target, request)
        else:
            answered = claim_requests.claim(connection, *key, request, seq=seq)
    except Refused:
        return _keep(connection, question.id, HomeAnswer("missing"))
    if answered.granted:
        return _keep(connection, question.id, _begin_lease(connection, answered, question, lease))
    if question.act != team_question.WAIT:
        return _keep(connection, question.id, _refusal(answered))
    seq = claim_queue.join_from(
        connection,
        answered.claim.key,
        question.id,
        question.home,
        shown,
        task=question.task,
        number=question.number,
        seconds=team_question.STAY,
    )
    place = claim_queue.position(connection, *answered.claim.key, seq)
    return HomeAnswer("waits", owner=answered.claim.agent_id, since=answered.claim.claimed_at, place=place)


def answer_own(
    connection: sqlite3.Connection, question: HomeQuestion, identities: Mapping[str, str]
) -> tuple[HomeAnswer, list[tuple[str, str]]]:
    """Renew or release the claims of the asker's home, or let its waiter leave; with the worktrees that were released.

    `identities` is what all homes call a repository, by its name here.
    """
    if question.act == team_question.LEAVE:
        claim_queue.leave_from(connection, question.id, question.home)
        return HomeAnswer("done"), []
    results, released = [], []
    for one in question.claims:
        result = "lost"
        for repo_name in (name for name, identity in identities.items() if identity == one.repo):
            key = (repo_name, one.worktree)
            if question.act == team_question.RENEW:
                result = leases.renew(connection, key, one.epoch, question.home)
            elif leases.release(connection, key, one.epoch, question.home):
                result = "released"
                released.append(key)
            if result != "lost":
                break
        results.append(result)
    return HomeAnswer("done", results=tuple(results)), released


def may_grant(connection: sqlite3.Connection) -> bool:
    """Whether a waiter of another home could claim now, or is gone. Reads only."""
    for waiter in claim_queue.list_from_homes(connection):
        seen = claim_requests.preview(
            connection, waiter.repo_name, waiter.worktree_name, _request_of(waiter), waiter.seq
        )
        if waiter.gone or seen.grantable:
            return True
    return False


def grant_waiters(connection: sqlite3.Connection, lease: float) -> list[GrantedClaim]:
    """Grant to the waiters of other homes whose turn it is, in the order of the line."""
    granted = []
    for waiter in claim_queue.list_from_homes(connection):
        if waiter.gone:
            claim_queue.leave(connection, waiter.seq)
            continue
        key, home = (waiter.repo_name, waiter.worktree_name), host.home_of(waiter.host) or ""
        answered = claim_requests.claim(connection, *key, _request_of(waiter), seq=waiter.seq)
        if answered.granted:
            question = HomeQuestion(waiter.question or "", team_question.WAIT, home, number=waiter.asked or 1)
            answer = _begin_lease(connection, answered, question, lease)
            granted.append(GrantedClaim(question.id, home, key, _keep(connection, question.id, answer)))
    return granted


def take_back(connection: sqlite3.Connection, granted: GrantedClaim) -> bool:
    """End a grant that the asker does not wait for any more; one that renewed an earlier claim stays."""
    _keep(connection, granted.question, HomeAnswer("failed"))
    if granted.answer.how != "granted":
        return False
    return leases.release(connection, granted.key, granted.answer.epoch, granted.home, how="given_back")


def _begin_lease(
    connection: sqlite3.Connection, answered: ClaimAnswer, question: HomeQuestion, lease: float
) -> HomeAnswer:
    leases.begin(connection, answered.claim, question.home, lease)
    how = "renewed" if answered.how == "renewed" else "granted"
    return HomeAnswer(how, epoch=answered.claim.epoch, lease=lease, number=question.number)


def _refusal(answered: ClaimAnswer) -> HomeAnswer:
    claim = answered.claim
    if answered.how == "queued" and answered.ahead is not None:
        return HomeAnswer("queued", owner=answered.ahead.agent_id)
    return HomeAnswer("held", owner=claim.agent_id, since=claim.claimed_at, state=claims.state(claim))


def _request(home: str, shown: str, task: str | None) -> ClaimRequest:
    """A request in the name of another home's agent: its claim is proven by that home and name, never by a process here."""
    holder = host.remote_holder(home)
    return ClaimRequest(shown, holder, task=task, caller=Caller(None, {"given": f"{holder.host}/{shown}"}))


def _request_of(waiter: WaiterRow) -> ClaimRequest:
    return _request(host.home_of(waiter.host) or "", waiter.agent_id, waiter.task_id)


def _keep(connection: sqlite3.Connection, question: str, answer: HomeAnswer) -> HomeAnswer:
    connection.execute(
        "INSERT INTO answers (question, answer) VALUES (?, ?) ON CONFLICT (question) DO UPDATE SET answer = excluded.answer",
        (question, answer.encode()),
    )
    connection.execute("DELETE FROM answers WHERE seq <= (SELECT max(seq) FROM answers) - ?", (_KEPT,))
    return answer
