"""The verdict whether a worktree may be removed: the reasons against it, each with a count, names and its override.

Removal moves a worktree into the trash, so a reason means "may still be needed here", not "would be lost now". What survives
a removal anyway (a branch that is kept) is a note, not a reason: people override a verdict that always refuses.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass

NOTE = "none"  # information only
FORCE = "force"  # --force
YES_REALLY = "yes-really"  # --force --yes-really NAME: it concerns another owner, or the facts are unknown
NEVER = "never"

SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason against removal. `names` are the first few of `count`; they are not yet safe to show."""

    code: str
    sentence: str
    count: int = 1
    names: tuple[str, ...] = ()
    override: str = FORCE

    def data(self) -> dict[str, object]:
        return {
            "code": self.code,
            "sentence": self.sentence,
            "count": self.count,
            "names": list(self.names),
            "override": self.override,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """All reasons and notes, in the order of the checks."""

    reasons: tuple[Reason, ...] = ()

    @property
    def safe(self) -> bool:
        return not self.refusals

    @property
    def refusals(self) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.override != NOTE)

    @property
    def notes(self) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.override == NOTE)

    def against(self, *, force: bool = False, yes_really: bool = False) -> tuple[Reason, ...]:
        """Return the reasons that these overrides do not lift; `yes_really` counts only together with `force`."""
        lifted = {NOTE, *([FORCE] if force else []), *([YES_REALLY] if force and yes_really else [])}
        return tuple(reason for reason in self.reasons if reason.override not in lifted)

    @property
    def strongest(self) -> str:
        """The override that lifts all reasons: none, force, yes-really or never."""
        ladder = (NOTE, FORCE, YES_REALLY, NEVER)
        return ladder[max((ladder.index(reason.override) for reason in self.reasons), default=0)]

    def codes(self) -> list[str]:
        return [reason.code for reason in self.refusals]


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides of a request. `yes_really` counts only together with `force`."""

    force: bool = False
    yes_really: bool = False
