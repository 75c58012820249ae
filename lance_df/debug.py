"""The content of a table's files as readable text, with the names of pylance."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from lance_df.arguments import checked_integer, checked_type
from lance_df.format.fragments import Fragment
from lance_df.format.manifest import Manifest
from lance_df.format.schema import Field, Schema
from lance_df.format.transaction import Transaction

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.fragment import FragmentMetadata
    from lance_df.table.table import Table

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]

_INDENT = "    "
_NOT_SHOWN = frozenset({"origin", "origin_schema", "dictionary_values", "hashes"})


def format_schema(dataset: LanceDataset) -> str:
    """Return the schema of a table with its field ids, as text."""
    return _text(_table_of(dataset).schema)


def format_manifest(dataset: LanceDataset) -> str:
    """Return the manifest of a version as text: its fragments and files, flags and settings."""
    return _text(_table_of(dataset).manifest)


def format_fragment(fragment: FragmentMetadata, dataset: LanceDataset) -> str:
    """Return a fragment as text, with the fields of the table that each of its files has."""
    from lance_df.fragment import FragmentMetadata

    checked_type(fragment, "fragment", FragmentMetadata, "a FragmentMetadata")
    described = fragment._to_format()
    schema = _table_of(dataset).schema
    files = []
    for file in described.files:
        known = set(file.fields)
        fields = tuple(each for each in schema.fields if not known.isdisjoint(n.id for n in each.walk()))
        files.append(
            _Struct(
                "PrettyPrintableDataFile",
                {
                    "path": file.path,
                    "fields": file.fields,
                    "column_indices": file.column_indices,
                    "schema": Schema(fields=fields, metadata=schema.metadata),
                    "major_version": file.major_version,
                    "minor_version": file.minor_version,
                },
            )
        )
    return _text(
        _Struct(
            "PrettyPrintableFragment",
            {
                "id": described.id,
                "files": files,
                "deletion_file": described.deletion_file,
                "physical_rows": described.physical_rows,
            },
        )
    )


def list_transactions(dataset: LanceDataset, max_transactions: int = 10) -> list[str]:
    """Return the transactions of the newest versions up to this one, newest first.

    Versions whose transaction is not recorded are left out.

    Raises
    ------
    InvalidInputError
        ``max_transactions`` is less than 1.
    """
    max_transactions = checked_integer(max_transactions, "max_transactions", 1)
    table = _table_of(dataset)
    versions = [number for number in table.history.numbers() if number <= table.version]
    made = map(table.transaction, reversed(versions[-max_transactions:]))
    return [_text(transaction) for transaction in made if transaction is not None]


def _table_of(dataset: LanceDataset) -> Table:
    from lance_df.dataset import LanceDataset

    return checked_type(dataset, "dataset", LanceDataset, "a LanceDataset")._table


@dataclasses.dataclass(frozen=True)
class _Struct:
    """A name and fields, to be shown."""

    name: str
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class _Wrapped:
    """A value in parentheses after a name."""

    name: str
    value: Any


def _text(value: Any, indent: str = "") -> str:
    """Return a value in the notation of Rust, which pylance prints."""
    match value:
        case _Struct():
            return _block(
                f"{value.name} {{", (f"{k}: " for k in value.fields), value.fields.values(), "}", indent
            )
        case _Wrapped():
            return _block(f"{value.name}(", [""], [value.value], ")", indent)
        case None:
            return "None"
        case Enum():
            return value.name
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return json.dumps(value.decode("utf-8", "replace"), ensure_ascii=False)
        case Mapping():
            return _block("{", (f"{_text(k)}: " for k in value), value.values(), "}", indent)
        case Field() | Schema() | Manifest() | Fragment() | Transaction():
            return _text(_shown(value), indent)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _text(_Struct(type(value).__name__, dict(_fields(value))), indent)
        case _ if isinstance(value, Iterable):
            items = list(value)
            return _block("[", [""] * len(items), items, "]", indent)
    return str(value)


def _block(begin: str, names: Iterable[str], values: Iterable[Any], end: str, indent: str) -> str:
    inner = indent + _INDENT
    lines = [f"{inner}{name}{_text(value, inner)},\n" for name, value in zip(names, values, strict=True)]
    return f"{begin}\n{''.join(lines)}{indent}{end}" if lines else begin + end


def _shown(value: Any) -> _Struct:
    """Return what is shown of the models whose text has more or other than their fields."""
    fields = dict(_fields(value))
    if isinstance(value, Field):
        fields = _field(value, -1)
    elif isinstance(value, Schema):
        fields["fields"] = [_Struct("Field", _field(each, -1)) for each in value.fields]
    elif isinstance(value, Manifest) and value.writer_version is not None:
        fields["writer_version"] = _Wrapped("Some", value.writer_version)
    return _Struct(type(value).__name__, fields)


def _field(field: Field, parent: int) -> dict[str, Any]:
    return {
        "name": field.name,
        "id": field.id,
        "parent_id": parent,
        "logical_type": _Wrapped("LogicalType", field.logical_type),
        "metadata": field.metadata,
        "nullable": field.nullable,
        "children": [_Struct("Field", _field(child, field.id)) for child in field.children],
        "dictionary": field.dictionary,
        "unenforced_primary_key_position": field.primary_key_position,
    }


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        if field.name not in _NOT_SHOWN:
            yield field.name, getattr(value, field.name)
