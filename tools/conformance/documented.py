"""Differences from DataFusion that the documentation states."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tools.conformance.answers import Answer, difference

if TYPE_CHECKING:
    from tools.conformance.statements import Ordering

_LISTS_OF_TABLES: Final = re.compile(r"\b(information_schema\.tables|show\s+tables)\b", re.IGNORECASE)
_ABOUT_A_NAMESPACE: Final = re.compile(r".+\$(partitions|specs|files|history)")
# of a condition with a list that begins with NULL, to which the binding adds the other values
_FAILURE_OF_THE_BINDING: Final = re.compile(r"TypeError\b.*\bunsupported operand .*\bBooleanScalar\b")


def documented_difference(sql: str, ours: Answer, theirs: Answer, ordering: Ordering | None) -> str | None:
    """Return what is documented about two answers that differ; None where their difference is not."""
    if theirs.error is not None:
        return None
    if ours.error is not None:
        is_known = _FAILURE_OF_THE_BINDING.search(ours.error) is not None
        return "conditions on which DataFusion's binding fails" if is_known else None
    if not _LISTS_OF_TABLES.search(sql) or difference(_same_tables(ours), _same_tables(theirs), ordering):
        return None
    return "lists of tables, which name tables about namespaces, and call registered tables views"


def _same_tables(listed: Answer) -> Answer:
    """Return a list of tables without those about namespaces, and with views as tables."""
    batches = []
    for batch in listed.batches:
        rows = [
            ["BASE TABLE" if value == "VIEW" else value for value in row]
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            if not any(isinstance(value, str) and _ABOUT_A_NAMESPACE.fullmatch(value) for value in row)
        ]
        columns = zip(*rows, strict=True) if rows else [[] for _ in batch.schema]
        arrays = [
            pa.array(list(values), field.type) for values, field in zip(columns, batch.schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=batch.schema))
    return dataclasses.replace(listed, batches=tuple(batches))
