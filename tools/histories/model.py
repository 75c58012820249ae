"""What a table or a namespace should hold, in plain Python. Immutable: a step makes another model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from .conditions import Condition, evaluate
from .prelude import value

Row = tuple[Any, ...]
Kind = Literal["table", "namespace"]


@dataclass(frozen=True)
class Column:
    """A column: the role says which values new rows have in it."""

    name: str
    role: str
    type: str


@dataclass(frozen=True)
class Settings:
    """What a history is of.

    Attributes
    ----------
    file_version
        Of the data files of a table.
    bases
        Base paths of a table.
    partitions
        Values of the column ``p``.
    thresholds
        Which set of constants the package works with: see `thresholds`.
    """

    kind: Kind
    partitions: int = 10
    thresholds: str = "default"
    file_version: str = "2.1"
    stable_row_ids: bool = False
    bases: int = 0


@dataclass(frozen=True)
class State:
    """Rows and columns of one version. Rows have an order only where ``is_ordered``."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    is_ordered: bool = False

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Names and types."""
        return [(column.name, column.type) for column in self.columns]

    @cached_property
    def plain(self) -> State:
        """The state without blobs."""
        kept = [index for index, column in enumerate(self.columns) if column.role != "blob"]
        if len(kept) == len(self.columns):
            return self
        rows = tuple(tuple(row[index] for index in kept) for row in self.rows)
        return dataclasses.replace(self, columns=tuple(self.columns[index] for index in kept), rows=rows)

    @cached_property
    def texts(self) -> list[str]:
        """The rows as texts, as `prelude.canonical` returns them."""
        return [repr(row) for row in self.rows]

    @cached_property
    def sorted_texts(self) -> list[str]:
        return sorted(self.texts)

    def position(self, name: str) -> int:
        return self.names.index(name)

    def of_role(self, *roles: str) -> list[Column]:
        """Return the columns whose role begins with one of some texts."""
        return [column for column in self.columns if column.role.startswith(roles)]

    def matches(self, condition: Condition) -> list[bool]:
        """Return for each row whether a condition is true."""
        names = self.names
        return [evaluate(condition, dict(zip(names, row, strict=True))) is True for row in self.rows]

    def where(self, condition: Condition | None) -> State:
        """Return the rows for which a condition is true."""
        if condition is None:
            return self
        kept = [row for row, is_true in zip(self.rows, self.matches(condition), strict=True) if is_true]
        return dataclasses.replace(self, rows=tuple(kept))

    def without(self, condition: Condition) -> State:
        """Return the rows for which a condition is not true."""
        kept = [row for row, is_true in zip(self.rows, self.matches(condition), strict=True) if not is_true]
        return dataclasses.replace(self, rows=tuple(kept))

    def new_rows(self, numbers: Sequence[int], salt: int, names: Sequence[str] | None = None) -> list[Row]:
        """Return the rows of some numbers, with NULL in the columns that are not named."""
        return [
            tuple(
                value(column.role, number, salt) if names is None or column.name in names else None
                for column in self.columns
            )
            for number in numbers
        ]

    def plus(self, rows: Sequence[Row]) -> State:
        """Return the state with more rows at the end."""
        return dataclasses.replace(self, rows=(*self.rows, *rows))

    def with_change(self, before: State, after: State) -> State | None:
        """Return the state with what changed between two others; None where other rows were changed."""
        known = {text: row for each in (after, self) for text, row in zip(each.texts, each.rows, strict=True)}
        old, new, rows = (Counter(each.texts) for each in (before, after, self))
        removed = old - new
        if after.columns != self.columns or removed - rows:
            return None
        texts = (rows - removed + (new - old)).elements()
        return dataclasses.replace(after, rows=tuple(known[text] for text in texts), is_ordered=False)

    def in_order_of(self, texts: Sequence[str]) -> State:
        """Return the state with its rows in the order in which they were read."""
        by_text: dict[str, list[Row]] = {}
        for row, text in zip(self.rows, self.texts, strict=True):
            by_text.setdefault(text, []).append(row)
        rows = tuple(by_text[text].pop() for text in texts)
        return dataclasses.replace(self, rows=rows, is_ordered=True)

    def is_read_as(self, fields: Sequence[tuple[str, str]], texts: Sequence[str]) -> bool:
        """Return whether what was read is this state."""
        if self.fields != list(fields) or len(self.rows) != len(texts):
            return False
        return self.texts == list(texts) if self.is_ordered else self.sorted_texts == sorted(texts)

    def differences(self, fields: Sequence[tuple[str, str]], texts: Sequence[str]) -> str:
        """Return in words how what was read differs."""
        if self.fields != list(fields):
            return f"columns {list(fields)}, expected {self.fields}"
        expected, found = Counter(self.texts), Counter(texts)
        missing, added = list((expected - found).elements()), list((found - expected).elements())
        if not missing and not added:
            return "the same rows in another order"
        return (
            f"{len(texts)} rows, expected {len(self.rows)}; {len(missing)} missing, such as {missing[:4]}; "
            f"{len(added)} that should not be there, such as {added[:4]}"
        )


@dataclass(frozen=True)
class Model:
    """A history so far.

    Attributes
    ----------
    state
        What the newest version holds.
    spec
        The current partition fields, as texts.
    versions
        Older versions that must stay readable.
    handles
        Objects of the main process that are open at a version, by name.
    next_number
        A number that no row has yet.
    runs
        Names of runs whose rows are there.
    tags
        The states that tags and branches name; ``branch x`` is a branch.
    clones
        What clones hold, by their folders.
    strays
        Whether members have versions that are not published.
    was_killed
        Whether a process that wrote was killed, and what it left is still there.
    cleans_up
        Whether commits remove old versions.
    indices
        Columns that have an index, which has their name.
    next_name
        Makes new names of columns, handles and tags.
    """

    settings: Settings
    state: State
    spec: tuple[str, ...] = ()
    versions: dict[int, State] = field(default_factory=dict)
    handles: dict[str, State] = field(default_factory=dict)
    next_number: int = 0
    runs: tuple[str, ...] = ()
    tags: dict[str, State] = field(default_factory=dict)
    clones: dict[str, State] = field(default_factory=dict)
    strays: bool = False
    was_killed: bool = False
    cleans_up: bool = False
    indices: tuple[str, ...] = ()
    next_name: int = 0

    def with_state(self, state: State, **others: Any) -> Model:
        """Return the model with another state."""
        return dataclasses.replace(self, state=state, **others)

    def without_versions(self, left: Sequence[int] | None = None) -> Model:
        """Return the model after a clean-up. Which objects can still read is not modelled.

        Parameters
        ----------
        left
            The versions that are left; it is not known of any by default.
        """
        versions = {} if left is None else {key: self.versions[key] for key in left if key in self.versions}
        # nothing knows what shallow clones refer to
        clones = {name: state for name, state in self.clones.items() if not name.startswith("shallow")}
        return dataclasses.replace(self, versions=versions, handles={}, clones=clones)

    def map_rows(self, change: Callable[[Row], Row], where: Condition | None) -> Model:
        """Return the model with some rows changed."""
        matches = [True] * len(self.state.rows) if where is None else self.state.matches(where)
        rows = tuple(
            change(row) if is_true else row for row, is_true in zip(self.state.rows, matches, strict=True)
        )
        return self.with_state(dataclasses.replace(self.state, rows=rows, is_ordered=False))

    def remembered(self) -> Iterator[int]:
        """Yield versions that must be readable, the newest first."""
        yield from sorted(self.versions, reverse=True)
