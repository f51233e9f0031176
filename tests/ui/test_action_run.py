"""Runs of actions behind the dashboard's dialogs."""

from __future__ import annotations

from contextlib import closing
from copy import copy
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Option, Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.store import db
from imi_monitor.ui.command_log import CommandLog
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget
from tests import registry_faults
from tests.actions.test_recovery import left_behind
from tests.helpers import Repo
from tests.ui.dialog_kit import DialogAction, open_context


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize(
    ("changed", "recovered"), [({}, True), ({"hot": True}, False), ({"recovers": False}, False)], ids=str
)
def test_what_a_crash_left_is_recovered_before_the_action(
    repo: Repo, changed: dict[str, bool], recovered: bool
) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "remove", {"name": "feat-x"})

    def act(_context: Context, _request: Request) -> Outcome:
        return Outcome(["done"])

    found = actions.find("prune")
    assert found is not None and found.recovers and not found.hot
    action = copy(found)
    vars(action).update(run=act, **changed)
    target = ActionTarget(None, lambda: Context(str(repo.path)))
    (one,) = ActionRun(action, CommandLog(), lambda _: None).run([target], {})
    assert isinstance(one.result, Outcome), one.result
    *before, last = one.result.lines
    assert (last, len(before)) == ("done", int(recovered))
    assert all("the interrupted remove of feat-x" in line for line in before)


@pytest.mark.usefixtures("own_home")
def test_what_git_alone_answers_runs_from_a_dialog_while_the_registry_is_damaged(repo: Repo) -> None:
    with closing(db.connect(database_path(None))):
        pass
    registry_faults.overwrite_header(Path(database_path(None)))
    action = actions.find("log")
    assert action is not None and not action.needs_registry
    target = ActionTarget(None, lambda: Context(str(repo.path)))
    (one,) = ActionRun(action, CommandLog(), lambda _: None).run([target], {})
    assert isinstance(one.result, Outcome), one.result
    assert "claims are unknown" in one.result.warnings[0] and "is damaged" in one.result.warnings[0]


# -- one target, several, none ------------------------------------------------------------------------------------------


def test_a_request_names_its_worktree_unless_another_place_was_given() -> None:
    action = DialogAction(
        options=(Option("in", "elsewhere", value="X", replaces_worktree=True), Option("note", "a text", value="X"))
    )

    def values(name: str | None, given: dict[str, object], bound: dict[str, object] | None = None) -> dict[str, object]:
        request = ActionTarget(name, open_context, bound or {}).request(action, given)
        assert request.verb == "try"
        return request.values

    assert values("feat-x", {"note": "a"}) == {"note": "a", "name": "feat-x"}
    assert values("feat-x", {"note": "a", "name": "typed"}, {"note": "b"}) == {"note": "b", "name": "feat-x"}
    assert values("feat-x", {"in": "there"}) == {"in": "there"}
    assert values(None, {"note": "a"}) == {"note": "a"}


def run(action: DialogAction, *names: str | None) -> tuple[list[Outcome | ImiError], CommandLog, list[str]]:
    """The results, the log, and what was reported on the way."""
    log, told = CommandLog(), list[str]()
    found = ActionRun(action, log, told.append).run([ActionTarget(name, open_context) for name in names], {})
    assert [one.target.name for one in found] == [*names]
    return [one.result for one in found], log, told


def test_an_action_can_report_its_progress_and_says_where_it_is_among_several() -> None:
    def work(context: Context, _request: Request) -> Outcome:
        assert context.shows_progress and not context.cancelled() and context.needs_registry
        context.progress("half way")
        return Outcome(["done"], warnings=["mind this"])

    (result,), log, told = run(DialogAction(result=work), "feat-a")
    assert isinstance(result, Outcome) and (result.lines, told) == (["done"], ["half way"])
    (entry,) = log.entries()
    assert (entry.state, entry.said, entry.short) == ("done", ("done", "warning: mind this"), "imi try feat-a")
    assert entry.seconds is not None
    _, log, told = run(DialogAction(result=work), "feat-a", "feat-b")
    assert told == ["1 of 2: feat-a", "1 of 2: feat-a half way", "2 of 2: feat-b", "2 of 2: feat-b half way"]
    assert [one.short for one in log.entries()] == ["imi try feat-a", "imi try feat-b"]


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (Refused("not this one", details=["because"]), "refused", ("not this one", "because")),
        (UsageError("not so"), "refused", ("not so",)),
        (ImiError("broken"), "failed", ("broken",)),
        (Refused("stopped", code="cancelled"), "cancelled", ("stopped",)),
        (RuntimeError("a fault"), "failed", ("RuntimeError: a fault",)),
    ],
)
def test_an_error_is_a_result_and_its_kind_is_in_the_log(error: Exception, state: str, said: tuple[str, ...]) -> None:
    def fail(_context: Context, _request: Request) -> Outcome:
        raise error

    results, log, _ = run(DialogAction(result=fail), "feat-a", "feat-b")
    for result in results:
        assert isinstance(result, ImiError) and (result.sentence, *result.details) == said
        assert result is error or isinstance(error, RuntimeError)
    assert [(one.state, one.said) for one in log.entries()] == [(state, said)] * 2


def test_a_context_that_cannot_be_opened_is_the_result_of_its_worktree() -> None:
    def refuse() -> Context:
        raise Refused("its folder is gone")

    def fail() -> Context:
        raise RuntimeError("a fault")

    log = CommandLog()
    targets = [ActionTarget("a", refuse), ActionTarget("b", fail), ActionTarget("c", open_context)]
    found = ActionRun(DialogAction(), log, lambda _: None).run(targets, {})
    results = [one.result for one in found]
    assert [one.sentence for one in results if isinstance(one, ImiError)] == [
        "its folder is gone",
        "RuntimeError: a fault",
    ]
    assert isinstance(results[2], Outcome) and len(log.entries()) == 1


def test_after_a_cancellation_the_others_are_left_untouched() -> None:
    action = DialogAction()
    acted = ActionRun(action, CommandLog(), lambda _: None)

    def work(context: Context, request: Request) -> Outcome:
        if request.text("name") == "b":
            acted.cancel()
            assert context.cancelled() and acted.cancelled
        return Outcome(["done"])

    action.result = work
    assert not acted.cancelled
    found = [one.result for one in acted.run([ActionTarget(name, open_context) for name in "abcd"], {})]
    assert [one.sentence if isinstance(one, ImiError) else one.lines[0] for one in found] == [
        "done",
        "done",
        *["not begun: it was cancelled before"] * 2,
    ]
    assert {one.code for one in found if isinstance(one, ImiError)} == {"cancelled"}
    assert [one["name"] for one in action.ran] == ["a", "b"]
    early = ActionRun(action, CommandLog(), lambda _: None)
    early.cancel()
    (first, second) = early.run([ActionTarget(name, open_context) for name in "ab"], {})
    assert isinstance(first.result, Outcome), "the first is the action's own to give up"
    assert isinstance(second.result, ImiError)
