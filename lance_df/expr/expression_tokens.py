"""The tokens of a pyarrow expression, read from what it pickles to.

`Expression.__reduce__` returns an Arrow IPC file with one batch of one row: its columns are the literals and
the options of calls, fully typed, and its schema metadata is the tree, as an ordered list with repeated keys
(observed in pyarrow 18 to 26). pyarrow shows metadata as a mapping, which loses the repetition, so the list
is read through the C data interface.
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
    """A column, or a field of a struct column, by names."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallStart:
    """The arguments of ``function`` follow, then its options if any, then `CallEnd`."""

    function: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The innermost open call is complete. ``options`` is a struct scalar."""

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
    """Return what an expression pickles to.

    Raises
    ------
    InvalidInputError
        It holds something that does not serialize, such as the position of a column.
    """
    try:
        buffer: pa.Buffer = expression.__reduce__()[1][0]
    except pa.ArrowException as err:
        raise InvalidInputError(
            f"the expression {expression} cannot be read: give columns by their names, as pc.field('a')"
        ) from err
    return buffer


def has_tokens(expression: pc.Expression) -> bool:
    """Whether an expression can be read: the position of a column, as ``pc.field(0)`` is, cannot."""
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
        The name of a column that is TRUE in every row: for it the literal is yielded.

    Raises
    ------
    InvalidInputError
        As of `serialized`.
    ValueError
        A token is of an unknown kind.
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
        pa.Schema._import_from_c(address)  # takes the struct over and releases it


def _parse_metadata(address: int) -> list[tuple[str, str]]:
    """Parse the C data interface's metadata: counts and lengths are native int32."""

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
