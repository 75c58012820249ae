"""Read the tokens of a pyarrow expression from its pickled form.

`Expression.__reduce__` returns an Arrow IPC file with one batch of one row. Its columns are the literals and
the options of calls, with their types. Its schema metadata is the tree, as an ordered list with repeated keys
(observed in pyarrow 18 to 26). pyarrow returns metadata as a mapping, which loses repeated keys, so this
module reads the list through the C data interface.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A column, or a field of a struct column, by name."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallStart:
    """The start of a call. The arguments of ``function`` follow, then its options if any, then `CallEnd`."""

    function: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of the innermost open call. ``options`` is a struct scalar."""

    options: pa.StructScalar | None


Token: TypeAlias = FieldReference | CallStart | CallEnd | pa.Scalar


class _ArrowSchema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def serialized(expression: pc.Expression) -> pa.Buffer:
    """Return the pickled form of an expression.

    Raises
    ------
    InvalidInputError
        The expression contains something that cannot be serialized, such as the position of a column.
    """
    try:
        buffer: pa.Buffer = expression.__reduce__()[1][0]
    except pa.ArrowException as err:
        raise InvalidInputError(
            f"the expression {expression} cannot be read; name the columns, such as pc.field('a')"
        ) from err
    return buffer


def has_tokens(expression: pc.Expression) -> bool:
    """Whether an expression can be read. The position of a column, as in ``pc.field(0)``, cannot."""
    try:
        expression.__reduce__()
    except pa.ArrowNotImplementedError:
        return False
    return True


def tokens(expression: pc.Expression, *, true_column: str | None = None) -> Iterator[Token]:
    """Yield the tokens of an expression in prefix order.

    Parameters
    ----------
    true_column
        The name of a column that is TRUE in every row. It is yielded as the literal TRUE.

    Raises
    ------
    InvalidInputError
        As for `serialized`.
    ValueError
        A token has an unknown kind.
    """
    batch = pa.ipc.open_file(serialized(expression)).get_batch(0)
    pairs = iter(_ordered_metadata(batch.schema))
    options: list[pa.StructScalar | None] = []
    for key, value in pairs:
        match key:
            case "call":
                options.append(None)
                yield CallStart(value)
            case "options":
                options[-1] = batch.column(int(value))[0]
            case "end":
                yield CallEnd(options.pop())
            case "literal":
                yield batch.column(int(value))[0]
            case "field_ref":
                yield pa.scalar(True) if value == true_column else FieldReference((value,))
            case "nested_field_ref":
                yield FieldReference(tuple(next(pairs)[1] for _ in range(int(value))))
            case _:
                raise ValueError(f"unknown token {key!r}")


def _ordered_metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    exported = _ArrowSchema()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)
    try:
        return _parse_metadata(exported.metadata)
    finally:
        pa.Schema._import_from_c(address)  # takes ownership of the struct and releases it


def _parse_metadata(address: int) -> list[tuple[str, str]]:
    """Parse the metadata of the C data interface. Counts and lengths are native int32."""

    def read_int32() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def read_text() -> str:
        nonlocal address
        length = read_int32()
        text = ctypes.string_at(address, length)
        address += length
        return text.decode()

    return [(read_text(), read_text()) for _ in range(read_int32())]
