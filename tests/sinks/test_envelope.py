"""What leaves this machine: CloudEvents that the official SDK reads, redacted, of a size and form that every receiver takes."""

from __future__ import annotations

import json

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured  # type: ignore[import-untyped]
from cloudevents.core.formats.json import JSONFormat  # type: ignore[import-untyped]

from imi_monitor.fast import json_writer
from imi_monitor.sinks import envelope
from imi_monitor.store.event_batches import OutgoingEvent, SessionTexts
from imi_monitor.store.events import Event


def outgoing(
    data: dict[str, object] | None = None, *, texts: SessionTexts | None = None, **more: object
) -> OutgoingEvent:
    given = {"path": "/w", "task": "T-1"} if data is None else data
    fields: dict[str, object] = {
        "seq": 42,
        "id": "0e1a-id",
        "type": "worktree.claimed",
        "host": "my host",
        "repo_name": "app@work",
        "worktree_name": "feat-x",
        "agent_id": "claude-1",
        "epoch": 3,
        "data": json_writer.dumps({}),
        "occurred_at": "2026-01-27T15:30:00.123456+00:00",
        **more,
    }
    return OutgoingEvent("r1", Event(tuple(fields.values())), given, texts)


def test_the_official_sdk_reads_what_we_publish() -> None:
    body = envelope.body(outgoing(), "names")
    event = from_structured(HTTPMessage({"content-type": envelope.CONTENT_TYPES["cloudevents"]}, body), JSONFormat())
    assert (event.get_id(), event.get_type(), event.get_source()) == (
        "0e1a-id",
        "worktree.claimed",
        "//my%20host/imi/r1",
    )
    assert event.get_subject() == "app@work/feat-x" and event.get_time().microsecond == 123456
    assert event.get_extension("agent") == "claude-1" and event.get_extension("sequence") == f"{42:020}"
    assert event.get_data() == {"path": "/w", "task": "T-1"}


def test_what_is_unknown_is_left_out_and_an_odd_moment_loses_nothing() -> None:
    made = envelope.cloud_event(
        outgoing({}, repo_name=None, worktree_name=None, agent_id=None, epoch=None, occurred_at="never"), "names"
    )
    assert not {"subject", "agent", "epoch"} & made.keys() and made["time"] == "1970-01-01T00:00:00+00:00"


def test_bloodbanks_envelope_has_its_fields() -> None:
    made = json.loads(envelope.body(outgoing({"correlation_id": "c-1"}), "names", "bloodbank"))
    assert (
        made["event_type"] == "worktree.claimed" and made["version"] == "1.0.0" and made["correlation_ids"] == ["c-1"]
    )
    assert made["source"] == {
        "host": "my host",
        "type": "agent",
        "app": "imi",
        "meta": {"registry": "r1", "sequence": 42},
    }
    assert made["payload"]["worktree_name"] == "feat-x" and made["agent_context"]["name"] == "claude-1"


def test_secrets_nul_and_halves_of_characters_do_not_leave() -> None:
    data: dict[str, object] = {
        "reason": "password=hunter2supersecret",
        "nested": [{"a\0b": "nul \0 and \ud800 half"}],
        "number": float("nan"),
        "long": "x" * 10_000,
    }
    text = envelope.body(outgoing(data), "names").decode()
    assert "hunter2" not in text and "\\u0000" not in text and "\\ud800" not in text and "NaN" not in text
    assert len(json.loads(text)["data"]["long"]) == 2048
    with pytest.raises(ValueError, match="larger than 64 KB"):
        envelope.body(outgoing({f"k{number}": "x" * 2000 for number in range(60)}), "names")


def test_what_is_shared_depends_on_the_level() -> None:
    texts = SessionTexts("Parser " * 40, "mend it, token=ghp_0123456789abcdefghijABCDEFGHIJ012345", "done")
    one = outgoing({"files": ["secret.py"], "detail": "Bash", "status": "done"}, texts=texts)
    shared = {level: envelope.shared_data(one, level) for level in envelope.LEVELS}
    assert shared["counts"] == {"status": "done"}
    assert shared["names"] == {"files": ["secret.py"], "detail": "Bash", "status": "done"}
    assert len(str(shared["titles"]["title"])) == 120 and "prompt" not in shared["titles"]
    assert shared["prompts"]["outcome"] == "done" and "ghp_" not in str(shared["prompts"])
    assert envelope.shared_data(one, "unknown level") == shared["counts"]
    note = outgoing({"note": 1, "place": "a.py:3", "remark": "why?"}, type="note.added")
    assert [sorted(envelope.shared_data(note, level)) for level in envelope.LEVELS] == [
        ["note"],
        ["note", "place"],
        ["note", "place"],
        ["note", "place", "remark"],
    ]
