"""Rows like those of ClickBench's table of web hits: many zeros and empty texts, few frequent values."""

from __future__ import annotations

from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

_SEED: Final = 20130701
_FIRST_DAY: Final = (date(2013, 7, 1) - date(1970, 1, 1)).days
_DAYS: Final = 31
_DAY_SECONDS: Final = 86_400
# distinct values of texts, and the share that is empty
_TEXTS: Final = {
    "URL": (20_000, 0.0),
    "Title": (8_000, 0.1),
    "Referer": (10_000, 0.2),
    "OriginalURL": (10_000, 0.5),
    "SearchPhrase": (6_000, 0.85),
    "MobilePhoneModel": (80, 0.95),
}
# distinct values of numbers; others have a few, and many zeros
_NUMBERS: Final = {
    "UserID": 30_000,
    "WatchID": 2**62,
    "RegionID": 3_000,
    "ClientIP": 40_000,
    "CounterID": 200,
}
_EVEN: Final = ("WatchID", "ClientIP")


def hits(schema: pa.Schema, rows: int, *, part: int = 0) -> pa.Table:
    """Return seeded rows of the columns of the real table; those of each part are others.

    `EventDate` is a date, as the queries need it. No column has NULLs, as in the real table.
    """
    random = np.random.default_rng(_SEED + part)
    days = _FIRST_DAY + np.sort(random.zipf(1.3, rows) % _DAYS)
    columns: dict[str, pa.Array] = {}
    for field in schema:
        if field.name == "EventDate":
            columns[field.name] = pa.array(days.astype("int32")).cast(pa.date32())
        elif field.name.endswith("EventTime"):
            seconds = days * _DAY_SECONDS + random.integers(0, _DAY_SECONDS, rows)
            is_time = pa.types.is_timestamp(field.type)
            columns[field.name] = pa.array(seconds, pa.timestamp("s") if is_time else field.type)
            columns[field.name] = columns[field.name].cast(field.type)
        elif pa.types.is_integer(field.type):
            columns[field.name] = pa.array(_numbers(random, field.name, rows, field.type))
        else:
            columns[field.name] = _texts(random, field.name, rows)
    return pa.table(columns)


def _numbers(random: np.random.Generator, name: str, rows: int, data_type: pa.DataType) -> np.ndarray:
    distinct = _NUMBERS.get(name, 60)
    found = random.integers(0, distinct, rows) if name in _EVEN else random.zipf(1.5, rows) % distinct
    if name in ("AdvEngineID", "SearchEngineID", "IsRefresh", "DontCountHits", "IsLink", "IsDownload"):
        found[random.random(rows) < 0.9] = 0
    if name.endswith("Hash") or name == "UserID":  # spread over all of int64, and what queries look for
        found = found.astype("int64") * 3_686_254_011_793_111_091 % 2**62
    return found.astype(data_type.to_pandas_dtype())


def _texts(random: np.random.Generator, name: str, rows: int) -> pa.Array:
    distinct, empty = _TEXTS.get(name, (12, 0.7))
    values = pa.array([*(_text(name, number) for number in range(distinct)), ""])
    index = random.zipf(1.4, rows) % distinct
    index[random.random(rows) < empty] = distinct
    return values.take(pa.array(index))


def _text(name: str, number: int) -> str:
    if name in ("URL", "Referer", "OriginalURL"):
        host = ("google.com", "www.example.org", "news.example.com", "xn--e1afmkfd.example")[number % 4]
        return f"http{'s' * (number % 2)}://{host}/path/{number}?q={'ж' * (number % 7)}"
    if name == "Title":
        return f"{'Google' if number % 50 == 0 else 'страница'} {number}"
    return f"{name} {number} ünï" if number % 3 else f"{number}"
