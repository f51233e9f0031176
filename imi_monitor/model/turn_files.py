"""What the records of an agent's program prove about the files of its last turn: their content before the agent changed them."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TurnFiles:
    """`before`: real path of a file -> its content when the turn began; None: it did not exist.

    `inexact`: those of them whose text is known but not its line ends or its encoding.
    """

    before: Mapping[str, bytes | None]
    inexact: frozenset[str] = frozenset()


NO_FILES = TurnFiles({})
