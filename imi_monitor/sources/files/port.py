"""What every way of following files looks like: folders in, raw events out, and an honest word when something was missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["created", "modified", "deleted", "moved_from", "moved_to"]


@dataclass(frozen=True, slots=True)
class Touched:
    """One raw event. `path` is absolute; two halves of a rename share a `cookie` where the system tells."""

    path: str
    kind: Kind
    is_dir: bool = False
    cookie: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The folders of a root: those that may be followed with everything below them, as nothing there is pruned, and
    those that are followed alone; `folders` is how many there are in all, below the first too."""

    deep: list[str]
    flat: list[str]
    folders: int


@dataclass(frozen=True, slots=True)
class Root:
    """Something to follow. `descend` says whether to look into a folder below (given its absolute path); with
    `deep` False only the folders named are followed, each for itself."""

    name: str  # what it is known by; unique
    folders: tuple[str, ...]
    deep: bool = False
    descend: Callable[[str], bool] = lambda _path: True
    plan: Plan | None = None  # where somebody has walked over it already


class Sink(Protocol):
    """Who is told. All of it is called on the loop."""

    def touched(self, root: str, batch: Sequence[Touched]) -> None: ...

    def lost(self, root: str | None, why: str) -> None:
        """Events are missing (None: anywhere): what is there now has to be looked at."""

    def doubt(self) -> None:
        """An event may be missing, though hardly ever is: what costs next to nothing is worth a look."""

    def gone(self, root: str, folder: str) -> None:
        """One of the folders that a root names is not there, or is another one now; the others are followed still."""

    def mode(self, root: str, how: str, why: str | None) -> None:
        """`live`, `polling`, `starting`, or `off`, and why it is not live. `live` is said of every addition, when it
        is true: whatever happened before is in no event."""


class FileEvents(Protocol):
    """A back end."""

    name: str

    async def start(self, sink: Sink) -> None: ...

    async def close(self) -> None: ...

    async def add(self, root: Root) -> None:
        """Follow it; what could not be followed is said through `mode`, never raised. A root that is added again under
        its name has changed: what it had before is followed without a gap."""

    def remove(self, name: str) -> None: ...
