"""UDFs of the partitioning spec: plain ones for any context, and typed ones for the types in a statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_df.compute.compat import PlainSessionContext, udf
from lance_df.errors import InvalidInputError
from lance_df.forks import new_lock
from lance_df.udfs.murmur3 import hash_udfs, plain_udfs, typed_udf

HASHES = ("murmur3", "murmur3_multi")

_TYPED_NAME = re.compile(r"\b(murmur3(?:_multi)?)__\d+_\w*")
_PROBE = "__lance_df_type_of"
_PLAIN_MURMUR3_TYPES = frozenset({"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32"})


def plain_name(text: str) -> str:
    """Return a text of DataFusion in which typed UDFs have the names that the user wrote."""
    return _TYPED_NAME.sub(r"\1", text)


def register_udfs(ctx: PlainSessionContext) -> None:
    """Register `murmur3`, `murmur3_multi` and their typed variants; see `lance_df.udfs.murmur3`."""
    from lance_df.arguments import checked_type

    checked_type(ctx, "ctx", PlainSessionContext, "a datafusion.SessionContext")
    for function in plain_udfs():
        ctx.register_udf(function)


def register_hashes(ctx: PlainSessionContext) -> None:
    """Register only `murmur3` and `murmur3_multi`, for sessions that find the variants themselves."""
    for function in hash_udfs():
        ctx.register_udf(function)


def _type_recorder(seen: dict[int, str]) -> Any:
    """Return a UDF (number, type name) that records its arguments.

    It refers to nothing else: a context keeps its functions alive, and would keep itself alive through them.
    """

    def record(number: pa.Array, type_name: pa.Array) -> pa.Array:
        if len(number):
            seen[number[0].as_py()] = type_name[0].as_py()
        return pa.array([0] * len(number), pa.int32())

    return udf(record, [pa.int64(), pa.string()], pa.int32(), "immutable", name=_PROBE)


class TypedFunctions:
    """The types of expressions in a statement, and the UDFs made for them, of one context."""

    def __init__(self, ctx: PlainSessionContext) -> None:
        self._ctx = ctx
        self._lock = new_lock()
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}
        self._types: dict[str, pa.DataType] = {}
        self._seen: dict[int, str] = {}
        self._has_probe = False

    def names(self) -> list[str]:
        """Return the names of the UDFs that were registered here."""
        with self._lock:
            return [*self._known.values(), *([_PROBE] if self._has_probe else [])]

    @staticmethod
    def probe(number: int) -> tuple[str, str]:
        """Return text to put around an expression to learn its type; the whole is an int32.

        ``CASE`` gives NULL the type of the expression. The whole folds to a constant while the plan is
        optimized, which calls the UDF without reading any row.
        """
        return f"{_PROBE}({number}, arrow_typeof(CASE WHEN true THEN NULL ELSE ", " END))"

    def learn(self, plan: Callable[[], Any], count: int) -> list[str | None]:
        """Optimize a statement that has ``count`` probes; return the names of the types, None if not seen."""
        with self._lock:
            self._seen.clear()
            if not self._has_probe:
                self._ctx.register_udf(_type_recorder(self._seen))
                self._has_probe = True
            plan()
            return [self._seen.get(number) for number in range(count)]

    def name_for(self, function: str, type_names: tuple[str, ...]) -> str | None:
        """Return the UDF of ``function`` for these types, made if needed; None if the plain one suffices.

        Raises
        ------
        InvalidInputError
            A type is nested, and so has no hash.
        """
        if function == "murmur3" and _PLAIN_MURMUR3_TYPES.issuperset(type_names):
            return None
        from lance_df.hashing import canonical_bytes

        key = (function, type_names)
        with self._lock:
            if key not in self._known:
                types = [self._type(name) for name in type_names]
                for data_type in types:
                    canonical_bytes(pa.nulls(0, data_type))  # raises if the type has none
                name = f"{function}__{len(self._known)}_" + "_".join(re.findall(r"\w+", " ".join(type_names)))
                self._ctx.register_udf(typed_udf(function, types, name.lower()))
                self._known[key] = name.lower()
            return self._known[key]

    def _type(self, name: str) -> pa.DataType:
        if name not in self._types:
            quoted = name.replace("'", "''")
            try:
                frame = PlainSessionContext.sql(self._ctx, f"SELECT arrow_cast(NULL, '{quoted}') AS value")
                self._types[name] = frame.schema().field("value").type
            except Exception as err:
                raise InvalidInputError(f"murmur3 is not defined for values of type {name}") from err
        return self._types[name]
