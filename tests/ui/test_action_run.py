"""Runs of actions behind the dashboard's dialogs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.store import db
from imi_monitor.ui.command_log import CommandLog
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget
from tests import registry_faults
from tests.helpers import Repo


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
