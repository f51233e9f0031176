"""Runs of actions behind the dashboard's dialogs."""

from __future__ import annotations

from contextlib import closing
from copy import copy
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.store import db
from imi_monitor.ui.command_log import CommandLog
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget
from tests import registry_faults
from tests.actions.test_recovery import left_behind
from tests.helpers import Repo


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
