"""Dataclasses of `lance_df.records` beside those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from lance_df.records import dataclass, replace


def ours(**options: Any) -> Any:
    return dataclass(frozen=True, slots=True, **options)


def theirs(**options: Any) -> Any:
    return dataclasses.dataclass(frozen=True, slots=True, **options)


def _plain(make: Callable[..., Any]) -> type[Any]:
    @make()
    class Some:
        """A class."""

        number: float
        name: str = "x"
        items: list[int] = dataclasses.field(default_factory=list)
        unseen: int = dataclasses.field(default=3, repr=False, compare=False)
        unhashed: Any = dataclasses.field(default=None, hash=False)
        made: int = dataclasses.field(init=False, default=7)

        @property
        def twice(self) -> float:
            return self.number * 2

    return Some


def _only_keywords(make: Callable[..., Any]) -> type[Any]:
    @make(kw_only=True)
    class Some:
        """A class."""

        number: int = 1
        name: str

    return Some


def _mixed(make: Callable[..., Any]) -> type[Any]:
    @make()
    class Some:
        """A class."""

        number: int
        name: str = dataclasses.field(kw_only=True)

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(self.number)

        def __repr__(self) -> str:
            return "some"

        def __hash__(self) -> int:
            return 5

    return Some


def _empty(make: Callable[..., Any]) -> type[Any]:
    @make()
    class Some:
        """A class."""

    return Some


def _own_equality(make: Callable[..., Any]) -> type[Any]:
    @make()
    class Some:
        """A class."""

        number: int

        def __eq__(self, other: object) -> bool:
            return True

    return Some


def _heir(make: Callable[..., Any]) -> type[Any]:
    @make()
    class Base(ABC):
        """A class."""

        number: int

        @abstractmethod
        def act(self) -> int: ...

    @make()
    class Some(Base):
        """A class."""

        number: int
        other: int = 2

        def act(self) -> int:
            return self.number

    return Some


_SHAPES = {
    _plain: [
        ((1.0,), {}),
        ((1.0, "y"), {"items": [1]}),
        ((math.nan,), {}),
        ((), {}),
        ((1, 2, 3, 4, 5, 6), {}),
    ],
    _only_keywords: [((), {"name": "a"}), ((), {"name": "a", "number": 2}), ((1,), {}), ((), {"number": 1})],
    _mixed: [((1,), {"name": "a"}), ((-1,), {"name": "a"}), ((1, "a"), {}), ((1,), {"name": "a", "more": 1})],
    _empty: [((), {}), ((1,), {})],
    _own_equality: [((1,), {}), ((2,), {})],
    _heir: [((1,), {}), ((1, 3), {})],
}


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as err:  # noqa: BLE001 - which is compared
        return type(err), str(err)


def _seen(cls: type[Any], arguments: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
    """Return everything about a class, and objects of it, that is to be the same."""
    seen: list[Any] = [
        cls.__name__,
        cls.__qualname__,
        cls.__doc__,
        cls.__match_args__,
        str(inspect.signature(cls)),
    ]
    seen += [tuple(each.name for each in dataclasses.fields(cls)), cls.__slots__]
    objects = []
    for places, keywords in arguments:
        made = _outcome(lambda: cls(*places, **keywords))  # noqa: B023
        seen.append(_outcome(lambda: repr(made)))  # noqa: B023
        if isinstance(made, cls):
            objects.append(made)
    for one in objects:
        seen += [
            [one == other for other in objects],
            one == 1,
            one != copy.copy(one),
            hasattr(one, "__dict__"),
        ]
        seen += [_outcome(lambda: hash(one)), dataclasses.asdict(one), repr(copy.deepcopy(one))]  # noqa: B023
        seen += [repr(dataclasses.replace(one))]
        # only of fields: for other names, slotted classes of the standard library stumble
        for name in cls.__match_args__:
            seen += [_outcome(lambda: setattr(one, name, 1)), _outcome(lambda: delattr(one, name))]  # noqa: B023
    return seen


@pytest.mark.parametrize("shape", _SHAPES, ids=lambda shape: shape.__name__)
def test_a_class_is_as_one_of_the_standard_library(shape):
    assert _seen(shape(ours), _SHAPES[shape]) == _seen(shape(theirs), _SHAPES[shape])


@dataclass(frozen=True, slots=True)
class Kept:
    """One that is pickled."""

    number: int
    names: tuple[str, ...] = ()


class Wider(Kept):
    """An ordinary class below it, with attributes of its own."""

    more: int


def test_objects_are_pickled_and_matched():
    kept = Kept(1, ("a",))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(kept, protocol)) == kept
    match kept:
        case Kept(number, names):
            assert (number, names) == (1, ("a",))


def test_an_ordinary_class_below_may_have_attributes_of_its_own():
    wider = Wider(1)
    wider.more = 2
    assert (wider.more, wider == Wider(1), wider == Kept(1)) == (2, True, False)
    with pytest.raises(dataclasses.FrozenInstanceError, match="number"):
        wider.number = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="number"):
        del wider.number


def test_others_are_made_by_the_standard_library():
    @dataclass
    class Plain:
        number: int

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        number: int

    plain = Plain(1)
    plain.number = 2
    assert plain == Plain(2)
    assert Ordered(1) < Ordered(2)


@pytest.mark.parametrize("make", [ours, theirs, lambda: dataclasses.dataclass(slots=True)])
def test_replaced_values(make: Callable[..., Any]) -> None:
    some = _plain(make)(1.5, "y", [2], 4)
    copied = replace(some, name="z", unseen=5)
    assert type(copied) is type(some)
    assert (copied.number, copied.name, copied.unseen, copied.made) == (1.5, "z", 5, 7)
    assert copied.items is some.items
    assert some.name == "y"
    with pytest.raises(TypeError, match="other"):
        replace(some, other=1)
    with pytest.raises((TypeError, ValueError), match="made"):
        replace(some, made=1)
