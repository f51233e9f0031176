"""Usage limits in the words of the programs, as users have reported them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from imi_monitor.model import attention, state_words, times, usage_limit
from imi_monitor.model.agent import EXACT, FAILED, Agent, Truth
from imi_monitor.model.usage_limit import UsageLimit

AT = datetime(2026, 11, 19, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("You've hit your limit · resets 2pm (Asia/Shanghai)", datetime(2026, 11, 20, 6, 0, tzinfo=UTC)),
        ("5-hour limit reached ∙ resets 2am (UTC)", datetime(2026, 11, 20, 2, 0, tzinfo=UTC)),
        ("Claude AI usage limit reached|1795128000", datetime.fromtimestamp(1795128000, UTC)),
        ("You're out of extra usage · resets 11:30am (Asia/Colombo)", datetime(2026, 11, 20, 6, 0, tzinfo=UTC)),
        ("Weekly limit reached · resets Nov 21, 3pm (UTC)", datetime(2026, 11, 21, 15, 0, tzinfo=UTC)),
        ("Weekly limit reached · resets Jan 1 at 3pm (UTC)", None),
        (
            "You've hit your usage limit. Upgrade, or try again at Nov 23rd, 2026 7:58 PM (UTC).",
            datetime(2026, 11, 23, 19, 58, tzinfo=UTC),
        ),
        (
            "usageLimitExceeded: You've hit your usage limit. Try again in 2 days 3 hours 5 minutes.",
            AT + timedelta(days=2, hours=3, minutes=5),
        ),
        ("You've hit your usage limit. Try again later.", None),
        (
            "You have exhausted your capacity on this model. Your quota will reset after 8h44m7s.",
            AT + timedelta(hours=8, minutes=44, seconds=7),
        ),
        ("You have exhausted your daily quota on this model.", None),
        (
            "Sorry, you've hit a rate limit that restricts … Please try again in 15 hours 23 minutes.",
            AT + timedelta(hours=15, minutes=23),
        ),
        (
            "Sorry, you've exceeded your 5 hour session limits. Please retry after 2733 seconds.",
            AT + timedelta(seconds=2733),
        ),
        ('402 {"error":{"message":"You have no quota","code":"quota_exceeded"}}', None),
        ("usage limit, resets 2026-11-20 06:00 UTC", datetime(2026, 11, 20, 6, 0, tzinfo=UTC)),
        ("usage limit", None),
        ("usage limit, resets 25:99", None),
        ("usage limit, resets 2020-01-01 06:00 UTC", None),
    ],
)
def test_a_limit_is_read_with_its_end(text: str, until: datetime | None) -> None:
    assert usage_limit.said_in(text, times.stamp(AT)) == UsageLimit(until)


@pytest.mark.parametrize(
    "text",
    [
        "the model has hit a token limit!",
        "context window limit reached",
        "API Error: 529 overloaded, limit reached",
        "its answer was cut at the limit of tokens",
        "prompt is too long",
        "No conversation found",
    ],
)
def test_other_failures_are_no_limit(text: str) -> None:
    assert usage_limit.said_in(text, times.stamp(AT)) is None


def test_a_time_of_day_without_a_zone_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = usage_limit.said_in("session limit reached, resets 3:15pm", times.stamp(AT))
    assert found is not None and found.until is not None
    local = found.until.astimezone()
    assert (local.hour, local.minute) == (15, 15) and AT < found.until <= AT + timedelta(days=1)


def test_the_words_of_a_limit() -> None:
    end = AT.astimezone().replace(hour=15, minute=0)
    limit = UsageLimit(end)
    assert usage_limit.words(limit, end - timedelta(hours=2)) == "limited until 15:00"
    assert usage_limit.words(limit, end - timedelta(days=2)) == f"limited until {end:%b} {end.day} 15:00"
    assert usage_limit.words(limit, end + timedelta(hours=1)) == "limit over since 15:00"
    assert usage_limit.words(UsageLimit()) == "limited" and not usage_limit.is_over(UsageLimit())
    assert usage_limit.is_over(limit, end) and not usage_limit.is_over(limit, end - timedelta(seconds=1))
    said = usage_limit.sentence(limit.until)
    assert usage_limit.said_in(said, times.stamp(AT - timedelta(days=1))) == limit


def test_an_agent_at_its_limit_stands_as_limited() -> None:
    truth = Truth(FAILED, times.stamp(AT), "transcript", EXACT, "You've hit your limit · resets 2pm (UTC)")
    agent = Agent("claude:1", "claude", "claude-1", None, None, "1", None, None, truth)
    assert attention.standing(agent) == state_words.LIMITED and not attention.needs_attention(agent)
