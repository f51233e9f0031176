"""Tasks of other programs: every shape that is found out there becomes the same, and what is no task is none."""

from __future__ import annotations

import json

import pytest

from imi_monitor.model.task_message import IncomingTask, read_task

FLUME = {
    "event": "flume.task.created",
    "version": "1.0.0",
    "data": {"id": "task-123", "correlationId": "c1", "objective": "Implement auth", "context": {}, "priority": 8},
    "correlationId": "c1",
    "source": "flume",
}
BLOODBANK = {
    "event_id": "550e8400",
    "event_type": "agent.task.assigned",
    "source": {"host": "h", "type": "agent", "app": "plane"},
    "payload": {"agent_name": "claude-1", "source": "plane", "task_type": "ticket", "task_preview": "Implement auth"},
}
REPO = {
    "specversion": "1.0",
    "id": "e1",
    "source": "urn:plane",
    "type": "bloodbank.repo.task.created",
    "data": {"repo": "acme/app", "title": "Implement auth", "provider": "plane", "ticket_id": 77, "assignee": "ada"},
}
PLAIN = {
    "id": "e2",
    "type": "task.created",
    "data": {"title": "Implement auth", "worktree": "feat-x", "priority": "urgent"},
}


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (FLUME, IncomingTask("task-123", "Implement auth", "", "high", None, None, None, "c1")),
        (BLOODBANK, IncomingTask("550e8400", "Implement auth", "", "medium", None, None, "claude-1", None)),
        (REPO, IncomingTask("plane:77", "Implement auth", "", "medium", "acme/app", None, "ada", None)),
        (PLAIN, IncomingTask("e2", "Implement auth", "", "high", None, "feat-x", None, None)),
    ],
)
def test_each_shape_is_read(message: dict[str, object], wanted: IncomingTask) -> None:  # S2.8
    assert read_task(json.dumps(message).encode(), "k") == wanted


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{", b"\xff", b'{"data": 7}', b'{"data": {}}', b'{"data": {"title": "no id"}}', b"[" * 100_000,
     b'{"id": "x", "data": {"title": " "}}', b'{"id": "x", "data": {"title": "' + b"x" * 300_000 + b'"}}'],
)  # fmt: skip
def test_what_is_no_task_is_none(body: bytes) -> None:
    assert read_task(body, "task.created") is None


def test_what_imi_published_itself_is_known() -> None:
    own = json.dumps({**PLAIN, "source": "//h/imi/r1"}).encode()
    for found in (read_task(own, "task.created"), read_task(json.dumps(PLAIN).encode(), "task.created", "imi")):
        assert found is not None and found.own
