"""Base of the classes that stand for one row of a table. Lean: dataclasses are too slow to import for the hot verbs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _parse_json(text: str) -> object:
    from imi_monitor.fast import json_reader

    return json_reader.loads(text)


# SQLite does not enforce column types, and other programs write the file: values are converted.
_CONVERTERS: dict[str, Callable[[object], object]] = {
    "str": str,
    "int": lambda value: int(str(value)),
    "float": lambda value: float(str(value)),
    "bool": bool,
    "dict": lambda value: _parse_json(str(value)),
}


class Row:
    """Sets each annotated attribute from the value at the same place of a row, converted to the annotated type.

    `columns` lists the attributes for a SELECT, where they are named after the table's columns.
    """

    columns = ""
    _fields: tuple[tuple[str, Callable[[object], object], bool], ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(
            (name, _CONVERTERS[kind.partition("[")[0].partition(" ")[0]], kind.endswith("| None"))
            for name, kind in cls.__annotations__.items()
        )
        cls.columns = ", ".join(cls.__annotations__)

    def __init__(self, values: tuple[object, ...]) -> None:
        for (name, convert, optional), value in zip(self._fields, values, strict=True):
            setattr(self, name, None if optional and value is None else convert(value))
