"""Our own frozen dataclasses behave as the standard ones in everything that imi uses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import pytest

from imi_monitor.fast import frozen_dataclass
from imi_monitor.model.snapshot import Key, Waiter


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Standard:
    """The same."""

    name: str
    size: int = 3
    tags: tuple[str, ...] = dataclasses.field(default=())


@frozen_dataclass.dataclass(frozen=True, slots=True, order=True)
class Ours:
    """The same."""

    name: str
    size: int = 3
    tags: tuple[str, ...] = frozen_dataclass.field(default=())

    def double(self) -> int:
        return self.size * 2


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("a",), {}),
    (("a", 4), {}),
    (("b", 1, ("x",)), {}),
    ((), {"name": "b", "tags": ("x", "y")}),
    (("a", 3, ()), {}),
]


def both() -> list[tuple[Ours, Standard]]:
    return [(Ours(*args, **named), Standard(*args, **named)) for args, named in ARGUMENTS]


def test_own_and_standard_dataclasses_compare_hash_and_print_alike() -> None:
    pairs = both()
    for mine, theirs in pairs:
        assert repr(mine) == repr(theirs).replace("Standard", "Ours")
        assert dataclasses.asdict(mine) == dataclasses.asdict(theirs)
        for other, other_theirs in pairs:
            assert (mine == other) is (theirs == other_theirs)
            assert (mine < other, mine >= other) == (theirs < other_theirs, theirs >= other_theirs)
            assert mine != other_theirs
    assert len({mine for mine, _ in pairs}) == len({theirs for _, theirs in pairs}) == 4
    assert [mine.name for mine in sorted(mine for mine, _ in pairs)] == ["a", "a", "a", "b", "b"]


def test_own_dataclasses_are_frozen() -> None:
    one = Ours("a")
    for name in ("name", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name  # type: ignore[misc]
    assert not hasattr(one, "__dict__")
    assert one == Ours("a")
    assert one.double() == 6


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), (("a", 1, (), 2), {}), (("a",), {"name": "b"}), (("a",), {"x": 1})]
)
def test_own_dataclasses_refuse_wrong_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Standard, Ours):
        with pytest.raises(TypeError):
            kind(*args, **named)


def test_own_dataclasses_can_be_replaced_copied_and_pickled() -> None:
    one = Ours("a", 2, ("t",))
    assert dataclasses.replace(one, size=9) == Ours("a", 9, ("t",))
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    match one:
        case Ours(name, size, _):
            assert (name, size) == ("a", 2)


def test_own_dataclasses_of_different_classes_are_unequal() -> None:
    key = Key("h", "r", "w")
    assert Waiter(key, "a", "t", 1) != (key, "a", "t", 1)
    assert key != ("h", "r", "w")
    assert {key: 1}[Key("h", "r", "w")] == 1
    with pytest.raises(TypeError):
        _ = key < ("h", "r", "w")  # type: ignore[operator]


def test_fields_without_compare_do_not_affect_equality() -> None:
    @frozen_dataclass.dataclass(frozen=True, slots=True, order=True)
    class Read:
        value: int
        at: str | None = frozen_dataclass.field(default=None, compare=False)

    assert Read(1, "now") == Read(1, "then")
    assert hash(Read(1, "now")) == hash(Read(1, "then"))
    assert not Read(1, "now") < Read(1, "then")
    assert Read(1, "now") != Read(2, "now")
    assert Read(1, "now").at == "now"


@frozen_dataclass.dataclass(frozen=True, slots=True)
class Inner:
    names: list[str] = frozen_dataclass.field(default_factory=list)


@frozen_dataclass.dataclass(frozen=True, slots=True)
class Longer(Inner):
    more: tuple[Inner, ...] = ()


def test_default_factories_and_inherited_fields_work() -> None:
    assert Inner().names == [] and Inner().names is not Inner().names
    assert Longer(["a"], (Inner(["b"]),)) == Longer(names=["a"], more=(Inner(["b"]),))
    assert [one.name for one in dataclasses.fields(Longer)] == ["names", "more"]
    assert dataclasses.fields(Inner)[0].default_factory is list


def test_own_asdict_and_replace_answer_as_the_standard_ones() -> None:
    one = Longer(["a"], (Inner(["b"]), Inner()))
    assert (
        frozen_dataclass.asdict(one)
        == dataclasses.asdict(one)
        == {"names": ["a"], "more": ({"names": ["b"]}, {"names": []})}
    )
    standard = Standard("n", 1, ("t",))
    assert frozen_dataclass.asdict(standard) == dataclasses.asdict(standard)
    assert frozen_dataclass.replace(one, names=["c"]) == dataclasses.replace(one, names=["c"])
    with pytest.raises(TypeError):
        frozen_dataclass.replace(one, wrong=1)  # type: ignore[call-arg]


def test_own_dataclasses_do_not_import_the_standard_module() -> None:
    code = (
        "import sys; from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus\n"
        "WorktreeStatus(ListedWorktree('n', 'r', 'p', None, 'feat')).data()\n"
        "sys.exit('dataclasses' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
