"""Questions and answers between homes: they come back as they went out; what is wrong or hostile is not read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model import team_question
from imi_monitor.model.team_question import ACTS, HeldClaim, HomeAnswer, HomeQuestion
from tests.ui.payloads import PAYLOADS, bad_characters

ID, HOME = "0e8c6b2a-1111-4222-8333-444455556666", "1f3a" * 8


def test_a_question_comes_back_as_it_went_out() -> None:
    held = (HeldClaim("github.com/acme/app", "feat-x", 3),)
    for question in (
        HomeQuestion(ID, "claim", HOME, "github.com/acme/app", "feat-x", "claude-1", "T-1"),
        HomeQuestion(ID, "wait", HOME, "github.com/acme/app", "feat-x", "claude-1").again(),
        HomeQuestion(ID, "leave", HOME),
        HomeQuestion(ID, "renew", HOME, claims=held),
        HomeQuestion(ID, "release", HOME, claims=held),
    ):
        assert team_question.read_question(question.encode()) == question
    for answer in (
        HomeAnswer("granted", 3, 60.0, 2),
        HomeAnswer("held", owner="a", since="2026-11-19T21:00:00Z", state="held"),
    ):
        assert team_question.read_answer(answer.encode()) == answer


def test_only_claims_can_be_asked_for() -> None:
    assert ACTS == ("claim", "wait", "leave", "renew", "release")
    row = json.loads(HomeQuestion(ID, "claim", HOME, "r", "feat-x", "a").encode())
    for act in ("force", "remove", "open", "run", "trust", "say", "", None, ["claim"]):
        assert team_question.read_question(json.dumps({**row, "act": act})) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "x"},
        {"id": "../../etc/passwd"},
        {"id": "a" * 65},
        {"from": 3},
        {"k": 0},
        {"k": True, "agent": ""},
        {"agent": "imi:remove"},
        {"agent": "a" * 121},
        {"agent": "a\x1b[2J"},
        {"name": ""},
        {"name": "a\nb"},
        {"repo": "r" * 201},
        {"task": ""},
        {"task": "t" * 501},
        {"act": "renew"},
        {"act": "renew", "claims": [["r", "n", -1]]},
        {"act": "release", "claims": [["r", "n", "1"]]},
        {"act": "release", "claims": [["r", "n", 1]] * 201},
    ],
)
def test_a_wrong_question_is_not_read(changed: dict[str, object]) -> None:
    row = json.loads(HomeQuestion(ID, "claim", HOME, "r", "feat-x", "a").encode())
    assert team_question.read_question(json.dumps({**row, **changed})) is None


def test_a_question_of_another_protocol_is_known_as_one() -> None:
    row = json.loads(HomeQuestion(ID, "claim", HOME, "r", "feat-x", "a").encode())
    found = team_question.read_question(json.dumps({**row, "v": 99}))
    assert found is not None and (found.id, found.act) == (ID, "")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_hostile_is_in_an_answer(payload: str) -> None:
    for text in (payload, json.dumps(payload), json.dumps({"v": 1, "how": payload}), json.dumps([payload])):
        assert team_question.read_answer(text) is None and team_question.read_question(text) is None
    row = {
        "v": 1,
        "how": "held",
        "owner": payload,
        "since": payload,
        "state": payload,
        "lease": 1e99,
        "results": [payload],
    }
    found = team_question.read_answer(json.dumps(row))
    assert found is not None and found.lease == 0
    shown = "".join([found.owner or "", found.since or "", found.state or "", *found.results])
    assert not bad_characters(shown)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    team_question.read_question(text)
    team_question.read_answer(text)
