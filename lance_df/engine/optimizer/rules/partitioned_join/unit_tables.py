"""Tables of a plan that is executed for one unit of partitions after the other.

DataFusion decides what a scan reads when it creates a physical plan, so all units share one logical plan.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.dataset

from lance_df.forks import new_lock

if TYPE_CHECKING:
    from lance_df.engine.provider import LanceTableProvider


class Turn(NamedTuple):
    """The number of a unit, and the number of partitions of its scans; None for the table's default."""

    number: int
    num_partitions: int | None


class Turns:
    """Determines which unit the scans read that are being planned."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._lock = new_lock()
        self._anywhere: Turn | None = None

    @contextmanager
    def of(self, number: int, num_partitions: int | None = None) -> Iterator[None]:
        """Let the scans that this thread plans read a unit."""
        self._here.turn = Turn(number, num_partitions)
        try:
            yield
        finally:
            self._here.turn = None

    @contextmanager
    def alone(self, number: int, num_partitions: int | None = None) -> Iterator[None]:
        """Let the scans that any thread plans read a unit. Meanwhile no other call of `alone` can start."""
        with self._lock, self.of(number, num_partitions):
            self._anywhere = self._here.turn
            try:
                yield
            finally:
                self._anywhere = None

    @property
    def current(self) -> Turn:
        """The unit that is being planned.

        Raises
        ------
        RuntimeError
            No unit is being planned.
        """
        here: Turn | None = getattr(self._here, "turn", None)
        turn = self._anywhere if here is None else here
        if turn is None:
            raise RuntimeError("a scan of some partitions was planned without knowing which partitions")
        return turn


class UnitTable(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """The pyarrow dataset interface that DataFusion uses; see `lance_df.engine.provider`.

    Parameters
    ----------
    providers
        The provider of each unit.
    """

    def __init__(self, providers: Sequence[LanceTableProvider], turns: Turns) -> None:
        self._providers = providers
        self._first = providers[0]
        self._turns = turns

    # see `LanceTableProvider.schema`
    schema = property(attrgetter("_first.schema"))

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **others: Any,
    ) -> Any:
        return self._providers[self._turns.current.number].scanner(columns, filter, **others)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[Any]:
        number, num_partitions = self._turns.current
        provider = self._providers[number]
        return [*provider.get_fragments(filter, num_partitions if provider.scan.source.is_local else None)]
