"""`@dataclass(frozen=True, slots=True)` without the standard module, which takes 8 ms to import.

The standard decorator compiles seven methods for each class. This one compiles `__init__` and shares the others. Its
classes behave as the standard ones; what `dataclasses.fields` reads is made at its first use. Type checkers see the standard
decorator.
"""

from __future__ import annotations

from _operator import attrgetter, ge, gt, le, lt

__all__ = ["asdict", "dataclass", "field", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import asdict, dataclass, field, replace
    from typing import Any
else:

    def dataclass(*, frozen: bool, slots: bool, order: bool = False) -> Any:
        """Return a class decorator. Only frozen classes with slots are supported."""
        assert frozen and slots
        return _ordered if order else _made

    def field(*, default: Any = ..., default_factory: Any = None, compare: bool = True) -> Any:
        """The options of one field; the ellipsis stands for no default."""
        return _Field("", "", default, default_factory, compare)

    def replace(one: Any, /, **changes: Any) -> Any:
        """Return a copy with other values in some fields."""
        return one.__class__(**{name: getattr(one, name) for name in one.__match_args__} | changes)

    def asdict(one: Any) -> dict[str, Any]:
        """Return the fields as a dictionary, and so those of dataclasses, lists, tuples and dictionaries in them."""
        return {name: _plain(getattr(one, name)) for name in one.__match_args__}


def _plain(value: Any) -> Any:
    if "__dataclass_fields__" in type(value).__dict__:  # reading it would import the standard module
        return asdict(value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(each) for key, each in value.items()} if type(value) is dict else value


class _Field:
    """A declared field."""

    __slots__ = ("compare", "default", "factory", "name", "type")

    def __init__(
        self, name: str, type: str, default: Any = ..., factory: Callable[[], Any] | None = None, compare: bool = True
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.factory = factory
        self.compare = compare


class _StandardFields:
    """The value of `__dataclass_fields__`, made by the standard module for those who ask."""

    __slots__ = ("_fields", "_made")

    def __init__(self, fields: list[_Field]) -> None:
        self._fields = fields
        self._made: dict[str, Any] | None = None

    def __get__(self, _instance: object, _owner: type) -> dict[str, Any]:
        if self._made is None:
            import dataclasses

            missing = dataclasses.MISSING
            plain: Any = type("Plain", (), {})
            plain.__annotations__ = {one.name: one.type for one in self._fields}
            for one in self._fields:
                options: dict[str, Any] = {
                    "default": missing if one.default is ... else one.default,
                    "default_factory": one.factory or missing,
                    "compare": one.compare,
                }
                setattr(plain, one.name, dataclasses.field(**options))
            self._made = dataclasses.dataclass(init=False, repr=False, eq=False)(plain).__dataclass_fields__
        return self._made


def _made(plain: Any) -> Any:
    fields = {one.name: one for base in plain.__mro__[-2:0:-1] for one in base.__dict__.get("_declared_fields", ())}
    own = {name: _declared(plain, name, kind) for name, kind in plain.__annotations__.items()}
    fields |= own
    body = {name: value for name, value in plain.__dict__.items() if name not in (*own, "__dict__", "__weakref__")}
    inherited = {name for base in plain.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    slots = tuple(name for name in fields if name not in inherited)
    body |= {"__slots__": slots, "__qualname__": plain.__qualname__, "__match_args__": tuple(fields)}
    made: Any = type(plain)(plain.__name__, plain.__bases__, body)
    made._declared_fields = list(fields.values())
    made.__dataclass_fields__ = _StandardFields(made._declared_fields)
    made.__init__ = _late_init(made)
    made.__eq__, made.__hash__ = _comparing(made, _compared_values(made))
    made.__repr__, made.__setattr__, made.__delattr__ = _repr, _refuse, _refuse
    made.__getstate__, made.__setstate__ = _getstate, _setstate
    return made


def _declared(plain: type, name: str, kind: str) -> _Field:
    default = plain.__dict__.get(name, ...)
    if isinstance(default, _Field):
        return _Field(name, kind, default.default, default.factory, default.compare)
    return _Field(name, kind, default)


def _ordered(plain: type) -> Any:
    made = _made(plain)
    values = _compared_values(made)
    for name, compare in (("lt", lt), ("le", le), ("gt", gt), ("ge", ge)):
        setattr(made, f"__{name}__", _compared(made, values, compare))
    return made


def _compared_values(made: Any) -> attrgetter[Any]:
    return attrgetter(*([one.name for one in made._declared_fields if one.compare] or ["__class__"]))


def _compared(made: type, values: attrgetter[Any], compare: Callable[[Any, Any], bool]) -> Any:
    return lambda self, other: compare(values(self), values(other)) if other.__class__ is made else NotImplemented


def _late_init(made: Any) -> Any:
    """Return an `__init__` that is replaced by a compiled one at its first call: most commands use few of the classes."""

    def first_init(self: object, *values: object, **named: object) -> None:
        if made.__init__ is first_init:
            made.__init__ = _init(made._declared_fields, made)
        made.__init__(self, *values, **named)

    return first_init


def _init(fields: list[_Field], made: type) -> Any:
    """The one method that is compiled for each class."""
    scope: dict[str, Any] = {"set": object.__setattr__}
    parameters, body = ["self"], [" pass"]
    for one in fields:
        value, default = one.name, f"_{one.name}"
        if one.factory is not None:
            scope[default] = one.factory
            value = f"{default}() if {one.name} is {default} else {one.name}"
        elif one.default is not ...:
            scope[default] = one.default
        parameters.append(f"{one.name}={default}" if default in scope else one.name)
        body.append(f" set(self,{one.name!r},{value})")
    exec(f"def __init__({','.join(parameters)}):\n" + "\n".join(body), scope)
    scope["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return scope["__init__"]


def _comparing(made: type, values: attrgetter[Any]) -> tuple[Any, Any]:
    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is made else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return equal, hashed


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: object, name: str, _value: object = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__match_args__]


def _setstate(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)
