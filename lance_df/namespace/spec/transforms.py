"""The transforms of the partitioning spec: parameters, source types, result types and SQL expressions.

Spec: partitioning, "Partition Transform". The parts of a date are calendar parts: ``day`` is 1 to 31.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.hashing import canonical_bytes
from lance_df.records import dataclass

_MAX_BUCKETS: Final = 2**31 - 1
_MAX_WIDTH: Final = 2**31 - 1


class TransformKind(StrEnum):
    """The name of a transform in a partition spec."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    MULTI_BUCKET = "multi_bucket"
    TRUNCATE = "truncate"


CALENDAR_PARTS: Final = (TransformKind.YEAR, TransformKind.MONTH, TransformKind.DAY, TransformKind.HOUR)
BUCKETS: Final = (TransformKind.BUCKET, TransformKind.MULTI_BUCKET)


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform with its parameters.

    Attributes
    ----------
    num_buckets
        The number of buckets of `BUCKET` and `MULTI_BUCKET`, at least 1.
    width
        The width of `TRUNCATE`, at least 1: the number of code points of a string, or the step of a number.

    Raises
    ------
    InvalidInputError
        A parameter is missing or invalid, or the transform does not have it.
    """

    kind: TransformKind
    num_buckets: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        self._check("num_buckets", self.num_buckets, self.kind in BUCKETS, _MAX_BUCKETS)
        self._check("width", self.width, self.kind is TransformKind.TRUNCATE, _MAX_WIDTH)

    def _check(self, name: str, value: object, belongs: bool, highest: int) -> None:
        if not belongs:
            if value is not None:
                raise InvalidInputError(f"the transform {self.kind} does not accept {name}")
        elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
            raise InvalidInputError(
                f"{self.kind}: {name} must be a number from 1 to {highest}, got {value!r}"
            )

    def __str__(self) -> str:
        parameter = self.width if self.num_buckets is None else self.num_buckets
        return self.kind.value if parameter is None else f"{self.kind.value}({parameter})"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        """Return the type of the partition values.

        Raises
        ------
        InvalidInputError
            The transform does not support columns of these types, or this number of columns.
        """
        if (len(sources) != 1 and self.kind is not TransformKind.MULTI_BUCKET) or not sources:
            raise InvalidInputError(f"the transform {self} does not accept {len(sources)} columns")
        types = [value_type(source) for source in sources]
        for data_type in types:
            if not _TAKES[self.kind](data_type):
                raise InvalidInputError(f"the transform {self} does not accept values of type {data_type}")
        return types[0] if self.kind in (TransformKind.IDENTITY, TransformKind.TRUNCATE) else pa.int32()

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        """Return the SQL expression over ``col0``, ``col1`` … that the specification derives."""
        match self.kind:
            case TransformKind.IDENTITY:
                return "col0"
            case TransformKind.BUCKET:
                return f"abs(murmur3(col0)) % {self.num_buckets}"
            case TransformKind.MULTI_BUCKET:
                columns = ", ".join(f"col{number}" for number in range(len(sources)))
                return f"abs(murmur3_multi({columns})) % {self.num_buckets}"
            case TransformKind.TRUNCATE if _is_text(value_type(sources[0])):
                return f"left(col0, {self.width})"
            case TransformKind.TRUNCATE:
                return f"col0 - (col0 % {self.width})"
            case _:
                return f"date_part('{self.kind.value}', col0)"

    def to_json(self) -> dict[str, Any]:
        """Return the transform as an object of the spec's JSON."""
        members: dict[str, Any] = {"type": self.kind.value}
        if self.num_buckets is not None:
            members["num_buckets"] = self.num_buckets
        if self.width is not None:
            members["width"] = self.width
        return members

    @classmethod
    def from_json(cls, data: object, *, source: str) -> Transform:
        """Return the transform that an object of the spec's JSON describes.

        Raises
        ------
        CorruptDataError
            It is malformed.
        UnsupportedFeatureError
            The transform is unknown.
        """
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            raise CorruptDataError(f"{source}: expected a transform with a type, found {data!r:.100}")
        if data["type"] not in set(TransformKind):
            known = ", ".join(TransformKind)
            raise UnsupportedFeatureError(
                f"{source}: unknown transform {data['type']!r}; the transforms are {known}"
            )
        try:
            return cls(TransformKind(data["type"]), data.get("num_buckets"), data.get("width"))
        except InvalidInputError as err:
            raise CorruptDataError(f"{source}: {err}") from err


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type without extension type and dictionary, which do not affect partition values.

    Expressions get values of this type.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _has_calendar(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type))


def _is_exact_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))


def _has_hash(data_type: pa.DataType) -> bool:
    try:
        canonical_bytes(pa.nulls(0, data_type))
    except InvalidInputError:
        return False
    return not pa.types.is_null(data_type)


_TAKES: Final[Mapping[TransformKind, Callable[[pa.DataType], bool]]] = {
    TransformKind.IDENTITY: _has_hash,
    TransformKind.BUCKET: _has_hash,
    TransformKind.MULTI_BUCKET: _has_hash,
    # steps of floats are not exact: 0.3 - (0.3 % 0.1) is no multiple of 0.1
    TransformKind.TRUNCATE: lambda data_type: _is_text(data_type) or _is_exact_number(data_type),
    **dict.fromkeys(CALENDAR_PARTS, _has_calendar),
}
