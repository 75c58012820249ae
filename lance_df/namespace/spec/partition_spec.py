"""Partition specs: how the partition of a row is computed from its columns, in every version of a namespace.

Spec: partitioning, "Partition Spec" and "Partition Evolution"; appendix A has the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Self

import pyarrow as pa

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.messages import parse_json
from lance_df.namespace.spec.json_arrow import type_from_json, type_to_json
from lance_df.namespace.spec.transforms import Transform
from lance_df.records import dataclass

KEY_PREFIX: Final = "partition_spec_v"
COLUMN_PREFIX: Final = "partition_field_"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition field, which has one partition value for each row.

    Attributes
    ----------
    field_id
        The name of the partition field in all spec versions, and of its column in ``__manifest``.
    source_ids
        Field ids of the columns that ``col0``, ``col1`` … stand for.
    transform, expression
        Exactly one of them. An expression is DataFusion SQL.
    result_type
        The type of the partition values.

    Raises
    ------
    InvalidInputError
        Both or none of transform and expression are given, there is no source, or a source is not a field id.
    """

    field_id: str
    source_ids: tuple[int, ...]
    transform: Transform | None
    expression: str | None
    result_type: pa.DataType

    def __post_init__(self) -> None:
        if not self.field_id:
            raise InvalidInputError("a partition field must have a field_id")
        if (self.transform is None) == (self.expression is None):
            raise InvalidInputError(
                f"partition field {self.field_id!r}: exactly one of transform and expression is required"
            )
        if not self.source_ids:
            raise InvalidInputError(f"partition field {self.field_id!r} has no source column")
        if not all(0 <= field_id < 2**31 for field_id in self.source_ids):
            raise InvalidInputError(
                f"partition field {self.field_id!r}: source_ids must be field ids of at least 0, got "
                f"{list(self.source_ids)}"
            )

    def __str__(self) -> str:
        return f"{self.field_id}: {self.transform or self.expression} of {list(self.source_ids)}"

    @property
    def column(self) -> str:
        """Return the name of its column in ``__manifest``."""
        return COLUMN_PREFIX + self.field_id

    @property
    def definition(self) -> tuple[tuple[int, ...], Transform | str | None]:
        """Return a value that is equal for two fields if they are the same field, which share an id."""
        return self.source_ids, self.transform or self.expression

    def to_json(self) -> dict[str, Any]:
        """Return the field as an object of the spec's JSON."""
        how = (
            {"expression": self.expression}
            if self.transform is None
            else {"transform": self.transform.to_json()}
        )
        return {
            "field_id": self.field_id,
            "source_ids": list(self.source_ids),
            **how,
            "result_type": type_to_json(self.result_type),
        }

    @classmethod
    def from_json(cls, data: object, *, source: str) -> Self:
        """Return the field that an object of the spec's JSON describes.

        Raises
        ------
        CorruptDataError
            It is malformed.
        UnsupportedFeatureError
            The transform or the type is unknown.
        """
        if not isinstance(data, dict):
            raise CorruptDataError(f"{source}: expected a partition field, found {data!r:.100}")
        field_id, sources, expression = (data.get(key) for key in ("field_id", "source_ids", "expression"))
        transform = data.get("transform")
        if not isinstance(field_id, str) or not isinstance(expression, str | None):
            raise CorruptDataError(f"{source}: invalid partition field: {data!r:.200}")
        if not isinstance(sources, list) or not all(type(number) is int for number in sources):
            raise CorruptDataError(
                f"{source}: source_ids of {field_id!r} must be field ids, found {sources!r:.100}"
            )
        try:
            return cls(
                field_id=field_id,
                source_ids=tuple(sources),
                transform=None if transform is None else Transform.from_json(transform, source=source),
                expression=expression,
                result_type=type_from_json(data.get("result_type"), source=source),
            )
        except InvalidInputError as err:
            raise CorruptDataError(f"{source}: {err}") from err


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One version of a namespace's partition spec. ``fields`` are the levels of its namespaces, top first.

    Raises
    ------
    InvalidInputError
        There is no field, or an id or a field is given twice.
    """

    id: int
    fields: tuple[PartitionField, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise InvalidInputError(
                "a partition spec must have at least one field; for a single partition, use a constant: "
                "expression('1', column)"
            )
        ids = [field.field_id for field in self.fields]
        if len(set(ids)) < len(ids):
            raise InvalidInputError(f"a partition spec has duplicate field ids: {', '.join(ids)}")
        if len({field.definition for field in self.fields}) < len(ids):
            raise InvalidInputError(
                f"a partition spec has duplicate fields: {', '.join(map(str, self.fields))}"
            )

    @property
    def name(self) -> str:
        """Return the name of its namespace, such as ``v1``."""
        return f"v{self.id}"

    @property
    def key(self) -> str:
        """Return its key in the metadata of ``__manifest``."""
        return f"{KEY_PREFIX}{self.id}"

    def to_json(self) -> str:
        """Return the JSON text that is stored."""
        data = {"id": self.id, "fields": [field.to_json() for field in self.fields]}
        return json.dumps(data, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, source: str) -> Self:
        """Parse a stored spec.

        Raises
        ------
        CorruptDataError
            It is malformed.
        UnsupportedFeatureError
            A transform or a type is unknown.
        """
        data = parse_json(text, source)
        number = data.get("id") if isinstance(data, dict) else None
        if not isinstance(data, dict) or type(number) is not int or not 1 <= number < 2**31:
            raise CorruptDataError(
                f"{source}: expected a partition spec with an id from 1 to 2147483647, found {text:.100}"
            )
        fields = data.get("fields")
        if not isinstance(fields, list):
            raise CorruptDataError(f"{source}: expected a list of fields, found {fields!r:.100}")
        try:
            return cls(number, tuple(PartitionField.from_json(field, source=source) for field in fields))
        except InvalidInputError as err:
            raise CorruptDataError(f"{source}: {err}") from err


@dataclass(frozen=True)
class PartitionSpecs:
    """All versions of the spec of one namespace, ascending.

    Raises
    ------
    InvalidInputError
        A field id has two definitions, or a definition has two field ids.
    """

    versions: tuple[PartitionSpec, ...]

    def __post_init__(self) -> None:
        numbers = [spec.id for spec in self.versions]
        if not numbers or numbers != sorted(set(numbers)):
            raise InvalidInputError(f"the ids of spec versions must be ascending, got {numbers}")
        by_id: dict[str, PartitionField] = {}
        by_definition: dict[object, PartitionField] = {}
        for field in (field for spec in self.versions for field in spec.fields):
            first = by_id.setdefault(field.field_id, field)
            twin = by_definition.setdefault(field.definition, field)
            if first.definition != field.definition:
                raise InvalidInputError(f"field_id {field.field_id!r} is used for both {first} and {field}")
            if twin.field_id != field.field_id:
                raise InvalidInputError(
                    f"{field} must have the field_id {twin.field_id!r}, as in another version of the spec"
                )
            if first.result_type != field.result_type:
                types = f"{first.result_type} and {field.result_type}"
                raise InvalidInputError(f"partition field {field.field_id!r} has different types: {types}")

    @property
    def current(self) -> PartitionSpec:
        """The version that partitions new rows."""
        return self.versions[-1]

    @cached_property
    def fields(self) -> Mapping[str, PartitionField]:
        """Every partition field of any version by its id, in the order of appearance."""
        return {field.field_id: field for spec in self.versions for field in spec.fields}

    def __iter__(self) -> Iterator[PartitionSpec]:
        return iter(self.versions)

    def version(self, number: int) -> PartitionSpec | None:
        """Return the spec version with a number, or None."""
        return next((spec for spec in self.versions if spec.id == number), None)

    def evolved(self, fields: Sequence[PartitionField]) -> PartitionSpecs:
        """Return the specs with a new version appended."""
        return PartitionSpecs((*self.versions, PartitionSpec(self.current.id + 1, tuple(fields))))

    def to_metadata(self) -> dict[str, str]:
        """Return the entries in the metadata of ``__manifest``."""
        return {spec.key: spec.to_json() for spec in self.versions}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], *, source: str) -> PartitionSpecs | None:
        """Return the specs in the metadata of a ``__manifest``, or None if there are none.

        Raises
        ------
        CorruptDataError
            A spec is malformed, its id differs from its key, or versions contradict each other.
        UnsupportedFeatureError
            A transform or a type is unknown.
        """
        versions = []
        for key, text in metadata.items():
            number = key.removeprefix(KEY_PREFIX)
            if key == number or not number.isdecimal():
                continue
            spec = PartitionSpec.from_json(text, source=f"{source}: {key}")
            if spec.key != key:
                raise CorruptDataError(f"{source}: {key} contains a spec with the id {spec.id}")
            versions.append(spec)
        if not versions:
            return None
        try:
            return cls(tuple(sorted(versions, key=lambda spec: spec.id)))
        except InvalidInputError as err:
            raise CorruptDataError(f"{source}: {err}") from err
