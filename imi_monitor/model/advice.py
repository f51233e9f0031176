"""Texts that end with advice: what to type for the command line, what to press for the dashboard."""

from __future__ import annotations


class Advised(str):
    """As a string the text for the command line; `dashboard` is the one for the dashboard."""

    dashboard: str


def advised(text: str, command_line: str, dashboard: str = "", *, joint: str = ": ") -> Advised:
    """Return the text with the advice behind it; with none for the dashboard where no key helps."""
    whole = Advised(f"{text}{joint}{command_line}" if text else command_line)
    whole.dashboard = f"{text}{joint}{dashboard}" if text and dashboard else text or dashboard
    return whole


def on_dashboard(text: str) -> str:
    """Return the text as the dashboard shows it."""
    return text.dashboard if isinstance(text, Advised) else text
