"""Partition fields as users specify them, by column names that are not yet resolved in a schema."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR, partition_names, table_folder
from lance_df.namespace.spec.expression_demands import checked_result_type
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpecs
from lance_df.namespace.spec.transforms import BUCKETS, Transform, TransformKind, value_type
from lance_df.records import dataclass

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
# as an SQL string literal: quotes in it are doubled
_EXPRESSION = re.compile(
    r"\s*expression\s*\(\s*'((?:[^']|'')+)'\s*,([^()']+)\)\s*", re.DOTALL | re.IGNORECASE
)
_NOT_IN_NAMES = re.compile(r"\W+")
# the limit of most file systems, in bytes; the names are ASCII
_MAX_FOLDER_NAME = 255


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A partition field by column names, as the functions of `lance_df.partition` return it.

    Attributes
    ----------
    columns
        Names of the source columns; ``a.b`` is a field of a struct.
    transform, expression
        Exactly one of them.
    field_id
        The default is built from the names of the columns and the transform.
    result_type
        The type of an expression. The default is the type that the expression returns.
    """

    columns: tuple[str, ...]
    transform: Transform | None = None
    expression: str | None = None
    field_id: str | None = None
    result_type: pa.DataType | None = None

    def resolved(
        self, schema: NamespaceSchema, specs: PartitionSpecs | None, taken: Sequence[str]
    ) -> PartitionField:
        """Return the partition field for a schema.

        Parameters
        ----------
        specs
            The existing versions. A field that is in one of them keeps its id, and no id is used again.
        taken
            The ids of the other fields of the same spec.

        Raises
        ------
        ColumnNotFoundError
            A source column does not exist.
        InvalidInputError
            The transform does not support such columns, or the expression does not meet the conditions.
        """
        fields = [schema.find(column) for column in self.columns]
        types = [field.arrow_type() for field in fields]
        sources = tuple(field.id for field in fields)
        known = {} if specs is None else dict(specs.fields)
        twin = next(
            (
                field
                for field in known.values()
                if field.definition == (sources, self.transform or self.expression)
            ),
            None,
        )
        if twin is not None:
            if self.field_id not in (None, twin.field_id):
                raise InvalidInputError(f"{twin} must keep its field_id, got {self.field_id!r}")
            return twin
        if self.transform is not None:
            result_type = self.transform.result_type(types)
        else:
            result_type = checked_result_type(
                self.expression or "", [value_type(each) for each in types], self.result_type, evaluator()
            )
        return PartitionField(
            field_id=self._new_id({*known, *taken}) if self.field_id is None else self.field_id,
            source_ids=sources,
            transform=self.transform,
            expression=self.expression,
            result_type=result_type,
        )

    def check(self) -> None:
        """Check the types of the attributes.

        Raises
        ------
        InvalidInputError
            One has another type.
        """
        if not self.columns or not all(isinstance(column, str) for column in self.columns):
            raise InvalidInputError(
                f"the columns of a partition field must be names, got {self.columns!r:.100}"
            )
        if not isinstance(self.field_id, str | None):
            raise InvalidInputError(f"field_id must be a string, got {self.field_id!r:.100}")
        if not isinstance(self.result_type, pa.DataType | None):
            raise InvalidInputError(f"result_type must be a pyarrow data type, got {self.result_type!r:.100}")

    def _new_id(self, taken: set[str]) -> str:
        match self.transform:
            case None:
                suffix = "expr"
            case Transform(TransformKind.IDENTITY):
                suffix = ""
            case transform:
                suffix = "bucket" if transform.kind in BUCKETS else transform.kind.value
        parts = [_NOT_IN_NAMES.sub("_", column) for column in self.columns]
        name = "_".join([*parts, suffix] if suffix else parts)
        candidates = (name if number == 1 else f"{name}_{number}" for number in range(1, len(taken) + 2))
        return next(candidate for candidate in candidates if candidate not in taken)


def resolve_all(
    wanted: Sequence[PartitionBy | str], schema: NamespaceSchema, specs: PartitionSpecs | None = None
) -> tuple[PartitionField, ...]:
    """Return the fields of a spec version; texts are read by `parse_partition_by`.

    Raises
    ------
    UnsupportedFeatureError
        There are so many fields that folder names would be too long.
    """
    fields: list[PartitionField] = []
    for each in parse_all(wanted):
        fields.append(each.resolved(schema, specs, [field.field_id for field in fields]))
    _check_depth(len(fields), 1 if specs is None else specs.current.id + 1)
    return tuple(fields)


def parse_all(wanted: Sequence[PartitionBy | str]) -> list[PartitionBy]:
    """Return partition fields whose names are not resolved yet; texts are read by `parse_partition_by`.

    Raises
    ------
    InvalidInputError
        The argument is not a list of partition fields.
    """
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise InvalidInputError(f"expected a list of partition fields, got {wanted!r:.100}")
    fields = []
    for each in wanted:
        field = parse_partition_by(each) if isinstance(each, str) else each
        if not isinstance(field, PartitionBy):
            raise InvalidInputError(f"expected a partition field such as year('ts'), got {each!r:.100}")
        field.check()
        fields.append(field)
    return fields


def _check_depth(num_fields: int, spec_id: int) -> None:
    """Check that folder names of members are not too long: each level of a spec adds to them."""
    folder = table_folder(SEPARATOR.join([f"v{spec_id}", *partition_names(num_fields), MEMBER_NAME]))
    if len(folder) > _MAX_FOLDER_NAME:
        raise UnsupportedFeatureError(
            f"a spec of {num_fields} fields would have folder names of {len(folder)} characters, but file "
            f"systems allow at most {_MAX_FOLDER_NAME}; use an expression of several columns instead of "
            "several fields"
        )


def parse_partition_by(text: str) -> PartitionBy:
    """Parse a text such as ``year(ts)``, ``bucket(user_id, 16)`` or ``country``.

    ``bucket(16, user_id)``, the order of Iceberg's SQL, means the same. An expression is written as an SQL
    string literal: ``expression('ascii(col0) % 7', carrier)``.

    Raises
    ------
    InvalidInputError
        There is no such transform, or its parameters are invalid.
    """
    if custom := _EXPRESSION.fullmatch(text):
        sources = tuple(column.strip() for column in custom[2].split(","))
        return PartitionBy(sources, expression=custom[1].replace("''", "'"))
    call = _CALL.fullmatch(text)
    if call is None:
        return PartitionBy((text.strip(),), Transform(TransformKind.IDENTITY))
    name, arguments = call[1].lower(), [argument.strip() for argument in call[2].split(",")]
    if name not in set(TransformKind):
        raise InvalidInputError(
            f"{text!r}: unknown transform {name!r}; the transforms are {', '.join(TransformKind)}"
        )
    kind = TransformKind(name)
    if kind in (*BUCKETS, TransformKind.TRUNCATE):
        if arguments[0].isdecimal() and not arguments[-1].isdecimal():
            arguments = [*arguments[1:], arguments[0]]
        *columns, parameter = arguments
        if not parameter.isdecimal():
            raise InvalidInputError(
                f"{text!r}: the first or last argument must be a number, as in {name}(column, 16)"
            )
        key = "width" if kind is TransformKind.TRUNCATE else "num_buckets"
        return PartitionBy(tuple(columns), Transform(kind, **{key: int(parameter)}))
    return PartitionBy(tuple(arguments), Transform(kind))
