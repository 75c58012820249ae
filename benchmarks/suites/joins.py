"""Joins of up to eight tables: TPC-H Q3, Q5, Q9 and Q18 as they are written, beside DataFusion on Parquet."""

from __future__ import annotations

from collections.abc import Iterator

from data import ensure_data
from measures import Measure
from queries import ALL_TABLES, JOINS

from .common import Settings
from .queries_tpch import engine_names, measure

TITLE = "joins"


def run(settings: Settings) -> Iterator[Measure]:
    scale = float(settings.home.name.removeprefix("sf"))
    ensure_data(settings.home.parent, scale, tables=ALL_TABLES, versions=settings.versions)
    engines = engine_names(settings, ("parquet", "memory", "duckdb"))
    yield from measure(TITLE, settings, engines, JOINS, ALL_TABLES)
