"""Read the parameters that an Arrow extension type exports as field metadata."""

from __future__ import annotations

import ctypes
import struct

import pyarrow as pa

_METADATA_KEY = b"ARROW:extension:metadata"


class _ArrowSchema(ctypes.Structure):
    """The start of `struct ArrowSchema` of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def extension_metadata(data_type: pa.BaseExtensionType) -> bytes:
    """Return the serialized parameters of an extension type, empty if it has none.

    pyarrow returns the parameters only of types written in Python; for its own types this uses the C data
    interface.
    """
    if isinstance(data_type, pa.ExtensionType):
        return bytes(data_type.__arrow_ext_serialize__())
    capsule = pa.field("", data_type).__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    exported = _ArrowSchema.from_address(get_pointer(capsule, b"arrow_schema"))
    return _key_values(exported.metadata).get(_METADATA_KEY, b"")


def _key_values(address: int | None) -> dict[bytes, bytes]:
    """Decode a metadata string: the number of pairs, then each key and value preceded by its int32 length."""
    if not address:
        return {}

    def take_int() -> int:
        nonlocal address
        (number,) = struct.unpack("=i", ctypes.string_at(address, 4))
        address += 4
        return int(number)

    def take_bytes() -> bytes:
        nonlocal address
        length = take_int()
        text = ctypes.string_at(address, length)
        address += length
        return text

    return {take_bytes(): take_bytes() for _ in range(take_int())}
