"""What a schema must be like before anything is written with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field, Schema

WRITABLE_VERSIONS = ("2.0", "2.1", "2.2")
# names that scans use for columns of their own
_RESERVED = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
_ITEMS_THAT_ARE_NO_VALUES = (
    "string",
    "binary",
    "large_string",
    "large_binary",
    "list",
    "large_list",
    "map",
    "dict",
)


def resolve_version(data_storage_version: str | None) -> str:
    """Return the file version that a caller's word stands for.

    Raises
    ------
    InvalidInputError
        An unknown word.
    UnsupportedFeatureError
        A version that cannot be written.
    """
    if data_storage_version in (None, "stable"):
        return "2.2"
    if data_storage_version in WRITABLE_VERSIONS:
        return data_storage_version
    known = ("0.1", "legacy", "2.3", "next")
    error = UnsupportedFeatureError if data_storage_version in known else InvalidInputError
    raise error(
        f"data_storage_version {data_storage_version!r} cannot be written; "
        f"use one of {', '.join(WRITABLE_VERSIONS)} or 'stable'"
    )


def check_schema(schema: Schema, version: str) -> None:
    """Check that a table with this schema can be written in a file version.

    Raises
    ------
    InvalidInputError
        Duplicate or reserved names, or names that cannot be referred to.
    UnsupportedFeatureError
        A type that the version, or this release, cannot store.
    """
    _check_names(schema.fields, "")
    for field in schema.fields:
        if "." in field.name:
            raise InvalidInputError(
                f"column {field.name!r} has a dot in its name; use a struct field instead"
            )
        if field.name in _RESERVED:
            raise InvalidInputError(f"column name {field.name!r} is reserved")
        _check_type(field, field.name, version, is_top_level=True)


def _check_names(fields: Sequence[Field], within: str) -> None:
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"two columns are called {within + name!r}")
    for field in fields:
        _check_names(field.children, f"{within}{field.name}.")


def _check_type(field: Field, path: str, version: str, *, is_top_level: bool) -> None:
    kind, _, rest = field.logical_type.partition(":")
    if field.is_blob or field.metadata.get("ARROW:extension:name") == b"arrow.json":
        raise UnsupportedFeatureError(
            f"column {path!r}: blob and JSON columns cannot be written by this release"
        )
    if field.is_packed and kind == "struct":
        raise UnsupportedFeatureError(f"column {path!r}: packed structs cannot be written by this release")
    if kind == "map" and version != "2.2":
        raise UnsupportedFeatureError(f"column {path!r}: maps need file version 2.2, this is {version}")
    if kind == "fixed_size_list":
        item = rest.rpartition(":")[0]
        if item == "struct" and (version != "2.2" or not is_top_level or _has_lists(field)):
            raise UnsupportedFeatureError(
                f"column {path!r}: fixed-size lists of structs need file version 2.2, the top level, "
                "and no lists within"
            )
        if item.partition(":")[0].split(".")[0] in _ITEMS_THAT_ARE_NO_VALUES:
            raise UnsupportedFeatureError(f"column {path!r}: Lance has no fixed-size lists of {item}")
    for child in field.children:
        _check_type(child, f"{path}.{child.name}", version, is_top_level=False)


def _has_lists(field: Field) -> bool:
    return any(
        node is not field
        and (node.is_list or node.logical_type.startswith(("map", "fixed_size_list:struct")))
        for node in field.walk()
    )
