"""May this worktree go? The reasons against it, each with a count, some names, and what it takes to override it.

Moving into the trash loses nothing, so a reason does not mean "would be lost now" but "somebody may still want this here";
after the grace it would be gone. What survives anyway (a branch that is kept) is a note, not a reason: a verdict that
refuses every day is a verdict that people learn to override.
"""

from __future__ import annotations

from dataclasses import dataclass

NOTE = "none"  # told, but nothing to override
FORCE = "force"  # --force
YES_REALLY = "yes-really"  # --force --yes-really NAME: it is about somebody else, or nobody knows
NEVER = "never"

SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that speaks against removing. `names` are the first few of `count`; both from outside, not yet safe."""

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
    """Everything found, in the order of asking."""

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
        """The refusals that still stand with these overrides; `yes_really` counts only beside `force`."""
        lifted = {NOTE, *([FORCE] if force else []), *([YES_REALLY] if force and yes_really else [])}
        return tuple(reason for reason in self.reasons if reason.override not in lifted)

    @property
    def strongest(self) -> str:
        """What it takes to override all of it: none, force, yes-really or never."""
        ladder = (NOTE, FORCE, YES_REALLY, NEVER)
        return ladder[max((ladder.index(reason.override) for reason in self.reasons), default=0)]

    def codes(self) -> list[str]:
        return [reason.code for reason in self.refusals]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the person typed besides the name. `yes_really` counts only together with `force`."""

    force: bool = False
    yes_really: bool = False
