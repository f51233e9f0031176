"""One finding of `imi doctor`, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A checked thing. `fail` stops commands from working, `warn` has a cost, `advice` says what to do."""

    name: str
    state: State
    says: str
    advice: str = ""

    def line(self) -> str:
        return f"{self.state:<4}  {self.name}: {self.says}" + (f"; {self.advice}" if self.advice else "")

    def data(self) -> dict[str, object]:
        return {"name": self.name, "state": self.state, "says": self.says, "advice": self.advice or None}


def ok(name: str, says: str, advice: str = "") -> CheckResult:
    return CheckResult(name, "ok", says, advice)


def warn(name: str, says: str, advice: str) -> CheckResult:
    return CheckResult(name, "warn", says, advice)


def fail(name: str, says: str, advice: str) -> CheckResult:
    return CheckResult(name, "fail", says, advice)
