"""Scans: TPC-H Q1, Q6, Q3 and one query for each thing that a scan must do well; see tpch.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tpch
from measures import Measure
from queries import QUERIES, TABLES

from .common import Settings

TITLE = "scans"


def run(settings: Settings) -> Iterator[Measure]:
    engines = engine_names(settings, ("memory", "parquet", "duckdb"))
    yield from measure(TITLE, settings, engines, QUERIES, TABLES)


def engine_names(settings: Settings, others: Sequence[str]) -> list[str]:
    """Return the engines to compare: those of ``others`` that are there, pylance, ours."""
    names = [name for name in others if name in ("memory", "parquet") or settings.has(name)]
    kinds = (["pylance"] if settings.has("pylance-provider") else []) + ["ours"]
    return [*names, *(f"{kind}-{version}" for kind in kinds for version in settings.versions)]


def measure(
    title: str,
    settings: Settings,
    engines: list[str],
    texts: Mapping[str, str],
    tables: Sequence[str],
) -> Iterator[Measure]:
    """Yield what every engine takes for every query."""
    interpreter = {"pylance": settings.peers["pylance-provider"]} if settings.has("pylance-provider") else {}
    found = tpch.measure(
        settings.home,
        engines,
        list(texts),
        rounds=settings.rounds,
        runs=settings.runs,
        interpreter=interpreter,
        texts=texts,
        tables=tables,
    )
    for engine, seconds in found.all_seconds.items():
        for query, values in seconds.items():
            yield Measure(title, query, engine, "s", tuple(values))
