"""Make frozen dataclasses with slots quickly; `dataclass` means the same as in the standard library.

The standard library compiles six methods for each class, which takes 1 ms, and a first small query needs a
hundred classes. Here ``__init__`` is compiled once for classes of one shape, and the other methods are
closures. ``InitVar`` is not supported. `replace` also means the same, and takes a quarter of the time for
these classes.

`as_integer` and `plain` convert integers of other libraries to those of Python, for fields and arguments.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_set = object.__setattr__


class _Factory:
    """The default of a parameter whose value comes from a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, **others):
        """Make a dataclass; only frozen classes with slots are supported."""

        def make(cls):
            if frozen and slots and not others:
                return _frozen_with_slots(cls, kw_only)
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, **others)

        return make if cls is None else make(cls)


def _frozen_with_slots(cls: type[Any], kw_only: bool) -> type[Any]:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # otherwise a signature is made for the docstring, which takes 1 ms
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    fields = dataclasses.fields(made)
    methods = {
        **_representing(fields),
        **_comparing(fields),
        **_refusing_changes(made, fields),
        "__replace__": _replacing(fields),
        "__getstate__": _values,
        "__setstate__": _set_values,
    }
    if "__init__" not in made.__dict__:
        made.__init__ = _initialising(made, fields)
    for name, method in methods.items():
        # a class that defines __eq__ has a __hash__ of None
        if made.__dict__.get(name) is None:
            setattr(made, name, method)
    return made


def _initialising(cls: type[Any], fields: Sequence[Field[Any]]) -> Callable[..., None]:
    stored = [field for field in fields if field.init or _has_default(field)]
    parameters = sorted((field for field in stored if field.init), key=lambda field: bool(field.kw_only))
    code = _init_code(
        tuple((field.init, field.default_factory is not MISSING) for field in stored),
        tuple(map(stored.index, parameters)),
        sum(bool(field.kw_only) for field in parameters),
        hasattr(cls, "__post_init__"),
    )
    names = {f"f{number}": field.name for number, field in enumerate(stored)}
    code = code.replace(
        co_varnames=tuple(names.get(name, name) for name in code.co_varnames),
        co_consts=tuple(names.get(value, value) for value in code.co_consts),
    )
    given: dict[str, Any] = {"_set": _set, "_FACTORY": _FACTORY}
    for number, field in enumerate(stored):
        given[f"_make{number}"], given[f"_default{number}"] = field.default_factory, field.default
    defaults = {
        field: _FACTORY if field.default is MISSING else field.default
        for field in parameters
        if _has_default(field)
    }
    method = FunctionType(code, given, "__init__")
    method.__defaults__ = tuple(value for field, value in defaults.items() if not field.kw_only)
    method.__kwdefaults__ = {field.name: value for field, value in defaults.items() if field.kw_only}
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return method


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


@cache
def _init_code(
    fields: tuple[tuple[bool, bool], ...], parameters: tuple[int, ...], num_keywords: int, has_post_init: bool
) -> CodeType:
    """Return the code of an ``__init__`` for fields called ``f0`` and so on.

    Classes of the same shape share it, since compiling takes longest.

    Parameters
    ----------
    fields
        For each field, whether it is a parameter, and whether a factory makes its value.
    parameters
        The numbers of the fields that are parameters; keyword-only ones come last.
    """
    names = ["_self", *(f"f{number}" for number in parameters)]
    if num_keywords:
        names.insert(-num_keywords, "*")
    lines = []
    for number, (is_parameter, is_made) in enumerate(fields):
        value = f"_make{number}()" if is_made else f"_default{number}"
        if is_parameter:
            value = f"{value} if f{number} is _FACTORY else f{number}" if is_made else f"f{number}"
        lines.append(f"_set(_self, 'f{number}', {value})")
    if has_post_init:
        lines.append("_self.__post_init__()")
    text = f"def __init__({', '.join(names)}):\n " + "\n ".join(lines or ["pass"])
    consts = compile(text, "<fields>", "exec").co_consts
    return next(value for value in consts if isinstance(value, CodeType))


def _representing(fields: Sequence[Field[Any]]) -> dict[str, Callable[..., Any]]:
    names = [field.name for field in fields if field.repr]

    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return {"__repr__": represent}


def _comparing(fields: Sequence[Field[Any]]) -> dict[str, Callable[..., Any]]:
    compared = _getter([each.name for each in fields if each.compare])
    hashed = _getter(
        [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    )

    def equal(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(compared(self) == compared(other))

    def hash_values(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": equal, "__hash__": hash_values}


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that makes a tuple of an object's attributes; within tuples, a NaN equals itself."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(*names)
    return lambda self: (only(self),)


def _replacing(fields: Sequence[Field[Any]]) -> Callable[..., Any]:
    names = [field.name for field in fields if field.init]
    values = _getter(names)

    def replaced(self: Any, /, **changes: Any) -> Any:
        return self.__class__(**(dict(zip(names, values(self), strict=True)) | changes))

    return replaced


def replace(record: T, /, **changes: Any) -> T:
    """Return a copy of a dataclass object with other values for some fields."""
    method = getattr(record, "__replace__", None)
    if method is None:  # for classes of the standard library, before Python 3.13
        return dataclasses.replace(record, **changes)  # type: ignore[type-var]
    replaced: T = method(**changes)
    return replaced


def _refusing_changes(cls: type[Any], fields: Sequence[Field[Any]]) -> dict[str, Callable[..., Any]]:
    names = {field.name for field in fields}

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}


def _values(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_values(self: Any, values: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        _set(self, field.name, value)


def as_integer(value: object) -> int | None:
    """Return an integer of any library, such as numpy, as an ``int``; None for a bool and all else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type] # this is what is tested
    except TypeError:
        return None


def plain(value: T) -> T | int:
    """Return an integer of any library as an ``int``, and anything else unchanged."""
    number = as_integer(value)
    return value if number is None else number
