"""Check which file versions can be written, and whether a version can store a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.blobs import BlobThresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field, Schema

WRITABLE_VERSIONS = ("0.1", "2.0", "2.1", "2.2")
_ALIASES = {None: "2.2", "stable": "2.2", "legacy": "0.1", "0.3": "2.0"}
_NUMBERS = frozenset(
    {"bool", "halffloat", "float", "double"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_TEXTS = frozenset({"string", "large_string", "binary", "large_binary"})
_INTEGERS = frozenset(kind for kind in _NUMBERS if "int" in kind)
_DICTIONARY_VALUES = _NUMBERS | _TEXTS | {"null"}
_LIST_ITEMS = _NUMBERS | {
    *("date32", "date64", "time32", "time64", "timestamp", "duration", "decimal", "fixed_size_binary"),
    *("fixed_size_list", "lance.bfloat16", "null"),
}


def resolve_version(data_storage_version: Any) -> str:
    """Return the file version for a value of ``data_storage_version``.

    Raises
    ------
    InvalidInputError
        The value is unknown.
    UnsupportedFeatureError
        The version cannot be written.
    """
    is_text = isinstance(data_storage_version, str | None)
    version = _ALIASES.get(data_storage_version, data_storage_version) if is_text else None
    if version in WRITABLE_VERSIONS:
        return version
    error = UnsupportedFeatureError if version in ("2.3", "next") else InvalidInputError
    raise error(
        f"data_storage_version {data_storage_version!r} cannot be written; "
        f"use one of {', '.join(WRITABLE_VERSIONS)} or 'stable'"
    )


def check_storable(schema: Schema, version: str) -> None:
    """Check that a file of a version can store columns with this schema.

    Raises
    ------
    InvalidInputError
        Names are duplicates, or cannot be referred to.
    UnsupportedFeatureError
        The version, or this release, cannot store a type.
    """
    check_distinct_names(schema.fields)
    for field in schema.fields:
        check_no_dot(field.name)
    check_types(schema, version)


def check_types(schema: Schema, version: str) -> None:
    """Check that a file of a version can store the types of columns.

    Raises
    ------
    UnsupportedFeatureError
        The version, or this release, cannot store a type.
    """
    for field in schema.fields:
        _check_type(field, field.name, version, is_top_level=True)


def check_no_dot(name: str) -> None:
    """Check that the name of a top-level column does not read as the path of a field.

    Raises
    ------
    InvalidInputError
        It has a dot.
    """
    if "." in name:
        raise InvalidInputError(
            f"column {name!r} has a dot in its name; rename it, in SQL with AS, or use a struct field"
        )


def check_distinct_names(fields: Sequence[Field], within: str = "") -> None:
    """Check that the names of columns, and of the fields of each struct, are distinct.

    Raises
    ------
    InvalidInputError
        Two of them are equal. Nobody can open a table with such a schema.
    """
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise InvalidInputError(f"two columns are called {within + field.name!r}")
        seen.add(field.name)
    for field in fields:
        check_distinct_names(field.children, f"{within}{field.name}.")


def _check_type(field: Field, path: str, version: str, *, is_top_level: bool) -> None:
    kind, _, rest = field.logical_type.partition(":")
    if field.is_blob:
        _check_blob(field, path, version)
        return
    if field.is_packed and kind == "struct" and version != "0.1":
        _check_packed(field, path, version)
    if kind == "map" and version != "2.2":
        raise UnsupportedFeatureError(f"column {path!r}: maps need file version 2.2, got {version}")
    if version == "0.1":
        _check_legacy_type(field, kind, path)
    if kind == "dict" and rest.partition(":")[0] not in _DICTIONARY_VALUES:
        raise UnsupportedFeatureError(
            f"column {path!r}: Lance does not support dictionaries of {rest.rsplit(':', 2)[0]}"
        )
    if kind == "fixed_size_binary" and version != "2.2":
        _check_size(rest, path)
    if kind == "fixed_size_list":
        _check_fixed_size_list(field, rest, path, version, is_top_level=is_top_level)
    for child in field.children:
        is_held = version == "2.0" or field.is_struct or (field.is_list and child.is_struct)
        if child.is_blob and not is_held:
            raise UnsupportedFeatureError(f"column {path!r}: blobs cannot be stored within lists")
        _check_type(child, f"{path}.{child.name}", version, is_top_level=False)


def _check_blob(field: Field, path: str, version: str) -> None:
    if field.logical_type != "large_binary" and not field.is_struct:
        raise UnsupportedFeatureError(
            f"column {path!r}: blobs must be of type large_binary, got {field.logical_type}"
        )
    if field.is_struct and version != "2.2":
        raise UnsupportedFeatureError(f"column {path!r}: blobs of this kind need file version 2.2")
    if version == "0.1":
        raise UnsupportedFeatureError(f"column {path!r}: blobs need file version 2.0")
    BlobThresholds.of(field.metadata)


def _check_packed(field: Field, path: str, version: str) -> None:
    """Check that the values of a packed struct have whole bytes, or from 2.2 on variable lengths."""
    if version == "2.0" and not field.children:
        raise UnsupportedFeatureError(f"column {path!r}: a packed struct must have at least one field")
    for child in field.children:
        kind = child.logical_type.partition(":")[0]
        varies = kind in _TEXTS or kind == "json" or (kind == "fixed_size_list" and version != "2.0")
        is_fixed = not child.children and "bool" not in child.logical_type and not varies
        if not (varies and version == "2.2" and ":bool:" not in child.logical_type) and (
            not is_fixed or fixed_width_bits(child.arrow_type()) is None
        ):
            raise UnsupportedFeatureError(
                f"column {path!r}: field {child.name!r} is of type {child.logical_type}, which packed "
                f"structs of file version {version} do not support"
            )


def _check_legacy_type(field: Field, kind: str, path: str) -> None:
    value = field.logical_type.split(":")[1] if kind == "dict" else ""
    if kind == "dict" and value not in _INTEGERS | _TEXTS:
        raise UnsupportedFeatureError(
            f"column {path!r}: file version 0.1 does not support dictionaries of {value}"
        )
    if kind == "struct" and not field.children:
        raise UnsupportedFeatureError(
            f"column {path!r}: file version 0.1 does not support structs without fields"
        )
    if kind == "fixed_size_list" and (field.children or ":null:" in field.logical_type):
        raise UnsupportedFeatureError(
            f"column {path!r}: file version 0.1 supports fixed-size lists of fixed-width values only"
        )


def _check_fixed_size_list(field: Field, text: str, path: str, version: str, *, is_top_level: bool) -> None:
    """Check the items and the size of a list of logical type ``fixed_size_list:`` followed by ``text``."""
    item, _, size = text.rpartition(":")
    _check_size(size, path)
    kind, _, rest = item.partition(":")
    if kind == "fixed_size_binary":
        _check_size(rest, path)
    if kind == "fixed_size_list":
        _check_fixed_size_list(field, rest, path, version, is_top_level=False)
    elif item == "struct":
        if version != "2.2" or not is_top_level or _has_lists(field):
            raise UnsupportedFeatureError(
                f"column {path!r}: fixed-size lists of structs need file version 2.2, must be at the top "
                "level, and cannot contain lists"
            )
    elif kind not in _LIST_ITEMS:
        raise UnsupportedFeatureError(f"column {path!r}: Lance does not support fixed-size lists of {item}")


def _check_size(size: str, path: str) -> None:
    if size == "0":
        raise UnsupportedFeatureError(f"column {path!r}: values of size 0 cannot be written")


def _has_lists(field: Field) -> bool:
    return any(
        node is not field
        and (node.is_list or node.logical_type.startswith(("map", "fixed_size_list:struct")))
        for node in field.walk()
    )
