"""A table of 100,000 fragments: opened, and asked for what a zone map says is in none of them.

What the process knows of a manifest is forgotten by giving the table another name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from measures import Measure

import lance_df

from .common import Settings, interleaved, timed

TITLE = "many fragments"


def run(settings: Settings) -> Iterator[Measure]:
    count = 300 if settings.quick else 100_000
    place = _Place(settings.scratch / "fragments.lance")
    made = lance_df.write_dataset(pa.table({"id": pa.array([5]), "value": [1.0]}), place.path)
    # that they share one file makes no difference to who opens the table
    fragments = [fragment.metadata for fragment in made.get_fragments()] * (count - 1)
    lance_df.LanceDataset.commit(
        str(place.path), lance_df.LanceOperation.Append(fragments), read_version=made.version
    )
    named = f"{count:,} fragments"
    openers: dict[str, Callable[[str], Any]] = {"ours": lance_df.dataset}
    if settings.has("pylance"):
        import lance

        openers["pylance"] = lance.dataset
    works = {name: _counting(opener, place) for name, opener in openers.items()}
    yield from timed(TITLE, f"{named}: open, count rows", interleaved(works, settings, runs=2))
    lance_df.dataset(place.path).create_scalar_index("id", "ZONEMAP")
    works = {name: _asking(opener, place.moved) for name, opener in openers.items()}
    yield from timed(TITLE, f"{named}: open, ask", interleaved(works, settings, runs=2))
    opened = {name: opener(str(place.path)) for name, opener in openers.items()}
    works = {name: _asking(opened.__getitem__, name.__str__) for name in opened}
    yield from timed(TITLE, f"{named}: ask again", interleaved(works, settings, runs=3))


class _Place:
    """A table that moves to a new name each time that it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = os.fspath(path).removesuffix(".lance")
        self._moves = 0

    def moved(self) -> str:
        self._moves += 1
        self.path = self.path.rename(f"{self._base}-{self._moves}.lance")
        return str(self.path)


def _counting(opener: Callable[[str], Any], place: _Place) -> Callable[[], int]:
    return lambda: opener(place.moved()).count_rows()


def _asking(opener: Callable[[Any], Any], place: Callable[[], Any]) -> Callable[[], int]:
    return lambda: int(opener(place()).to_table(filter="id = 7", columns=["value"]).num_rows)
