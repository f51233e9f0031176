"""Records of sessions: redacted, without control characters, limited in size, the same when made twice. # T1 T4"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model import session_record as records
from imi_monitor.model import times
from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.model.redact import redact
from tests.store.session_kit import act, agent, record

NOW = datetime(2025, 1, 27, 13, 0, 0, tzinfo=UTC)
WORD = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=24, max_size=60)
SHAPES = (
    "ghp_{0}",
    "sk-ant-{0}",
    "AKIA" + "{0:.16}",
    "Authorization: Bearer {0}",
    "https://me:{0}@host/x.git",
    "export GITHUB_TOKEN={0}",
    '{{"password": "{0}"}}',
    "api_key: {0}",
    "aws_secret_access_key = {0}",
    "mysql --password {0} -u me",
    "curl --access-token {0}",
    "PASSWORD='{0}'",
    'token = "{0}"',
    "-----BEGIN RSA PRIVATE KEY-----\n{0}\n-----END RSA PRIVATE KEY-----",
    "eyJ{0}.{0}.{0}",
    '{{\\"api_key\\": \\"{0}\\"}}',
    "redis://:{0}@host:6379/0",
    "xoxb-{0}",
    "npm_{0}",
)
ANY = st.text() | st.text("\x00\x1b[]0;m\x07‮\ud800\udc80é中́\n\r\t", max_size=200)


@given(secret=WORD, shape=st.sampled_from(SHAPES), before=st.text(max_size=80), after=st.text(max_size=80))
def test_no_secret_is_stored_in_any_field(secret: str, shape: str, before: str, after: str) -> None:
    text = f"{before} {shape.format(secret.upper() if 'AKIA' in shape else secret)} {after}"
    hidden = secret.upper()[:16] if "AKIA" in shape else secret
    kept = record(
        agent(prompt=text, last_message=text, title=text, detail=text),
        act("prompt", "p", 1, text),
        act("tool_started", "t", 2, text, tool=f"Bash {text}", call="c"),
        act(
            "tool_finished", "f", 3, text, tool=f"Bash {text}", call="c", ok=True, subagent=text, files=(f"/x/{text}",)
        ),
    )
    if hidden not in before and hidden not in after:
        assert hidden not in repr(kept)


@given(secret=WORD, filler=st.integers(0, 4000))
def test_a_secret_at_the_cut_leaves_no_part(secret: str, filler: int) -> None:
    kept = records.stored_text("x" * filler + f" ghp_{secret} " + "y" * 3000) or ""
    assert not any(secret[:size] in kept for size in range(8, len(secret)))


@given(text=ANY)
def test_stored_text_has_no_controls_and_a_limited_length(text: str) -> None:
    kept = records.stored_text(text)
    assert kept is not None
    assert len(kept.encode()) <= records.MOST_BYTES  # and it can be encoded at all
    assert all(line.isprintable() for line in kept.split("\n"))
    assert records.stored_text(kept) == kept, "cleaning what is clean changes nothing"


@given(ident=ANY)
def test_ids_are_short_plain_and_the_same_each_time(ident: str) -> None:
    key = records.stored_id(ident)
    assert key == records.stored_id(ident) and len(key) <= 120 and key.isascii()
    assert key == ident or len(key) == 64
    assert records.stored_id(ident + "x" * 130) != key


def test_long_texts_are_cut_and_hashed_whole() -> None:
    one, other = "a" * 5000 + "1", "a" * 5000 + "2"
    assert records.stored_text(one) == records.stored_text(other)
    (shown, first), (_, second) = records.stored_input(one), records.stored_input(other)
    assert shown == records.stored_text(one) and first != second and len(first or "") == 64
    assert records.stored_input(None) == (None, None) and records.stored_text(None) is None
    secrets = [records.stored_input(f"password={word}")[1] for word in ("one12345", "two67890")]
    assert secrets[0] == secrets[1], "a hash confirms no guess"
    assert records.stored_text("one\r\ntwo\x1b[31m") == "one\ntwo\\x1b[31m"


def test_moments_from_outside_are_normalised() -> None:
    assert records.stored_moment("2025-01-27T12:00:00Z", NOW) == "2025-01-27T12:00:00.000000+00:00"
    assert records.stored_moment("2031-01-01T00:00:00Z", NOW) == times.stamp(NOW), "an agent's clock may be wrong"
    assert records.stored_moment("nonsense", NOW) == records.stored_moment(None, NOW) == times.stamp(NOW)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/a.ts", "code"),
        ("notes/plan.MD", "note"),
        ("out/run.log", "log"),
        ("shot.png", "attachment"),
        ("Makefile", "code"),
        ("LICENSE", "other"),
        ("uv.lock", "other"),
        (".env", "other"),
        ("", "other"),
    ],
)
def test_file_kinds(path: str, kind: str) -> None:  # S3.3
    assert records.file_kind(path) == kind


def test_paths_are_inside_the_worktree_or_whole() -> None:
    assert records.relative_path("/w/feat/src/a.py", "/w/feat") == "src/a.py"
    assert records.relative_path("/w/feat-2/a.py", "/w/feat") == "/w/feat-2/a.py"
    assert records.relative_path("/w/feat/\x1b]0;x\x07", "/w/feat") == "\\x1b]0;x\\x07"
    assert records.relative_path("/etc/x", None) == "/etc/x"


def test_a_tool_call_has_its_own_id_or_that_of_its_event() -> None:
    named = record(agent(), AgentEvent("tool_started", "r1", "", "in", ToolCall("Bash", "x", "call-1"))).calls[0]
    assert (named.id, named.input, named.status) == ("call-1", "in", "running")
    bare = record(agent(), AgentEvent("tool_finished", "r2", "", None, ToolCall("Read", "a.py"), ok=None)).calls[0]
    assert (bare.id, bare.input, bare.status) == ("r2", "a.py", "cancelled")


@pytest.mark.parametrize(
    "piece", ["--password ", "token: ", '"secret": "', "-----BEGIN PRIVATE KEY-----", "eyJa.", "a-token "]
)
def test_redacting_long_texts_is_fast(piece: str) -> None:
    """Repeated beginnings of what is looked for: anything but linear would take minutes here."""
    redact(piece * 20_000)
