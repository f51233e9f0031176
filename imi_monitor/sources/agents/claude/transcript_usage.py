"""What the hooks of a Claude in a window do not say and its transcript does: what it has used, and that a turn was stopped."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.model.agent import CANCELLED, SessionFacts
from imi_monitor.sources.agents.claude.records import TokenLedger
from imi_monitor.sources.agents.claude.transcript import Subagents, Transcript


class TranscriptUsage:
    """Follows the transcript and those of its subagents."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._ledger = TokenLedger()
        self._transcript, self._subagents = Transcript(path, ledger=self._ledger), Subagents(path, self._ledger)

    def stopped_at(self) -> str | None:
        """Return when the user, or imi, stopped the last turn; None if it went on or ended otherwise."""
        self._transcript.read()
        found = self._transcript.reducer.evidence()
        return found.at if found is not None and found.state == CANCELLED else None

    def complete(self, facts: SessionFacts) -> SessionFacts:
        """The facts with tokens, model and money, as far as the transcript has them now."""
        main, others = self._transcript, self._subagents
        main.read()
        others.read(None)
        while main.has_older:
            main.read_older()
        while others.has_older:
            others.read_older()
        main.take_events()
        if main.tokens is None:
            return facts
        known = main.reducer.known_facts(self._ledger.counted)
        return replace(
            facts,
            model=known.model or facts.model,
            version=known.version or facts.version,
            tokens_in=known.tokens_in,
            tokens_out=known.tokens_out,
            tokens_cached=known.tokens_cached,
            cost_usd=known.cost_usd,
            context_used=known.context_used,
        )
