"""Machine code of kernels as functions of this process, called without numba."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from llvmlite import binding as llvm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.encodings.kernels.kept_code import Code

ENTRY: Final = "lance_df_kernel"
# what the code finds at these places of the bytes that it is given as ``self``, before the dtypes of arrays
OBJECTS: Final = (
    np.ndarray,
    int,
    np.int64,
    np.uint64,
    True,
    False,
    np.True_,
    np.False_,
    None,
    NotImplemented,
)
FUNCTIONS: Final = (
    "Py_IncRef",
    "PyBool_FromLong",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyTuple_New",
    "PyTuple_SetItem",
)

_METH_FASTCALL: Final = 0x80


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
# code outlives whatever may run it
_engines: Final[list[Any]] = []


def load_all(codes: Iterable[Code]) -> list[Callable[..., Any]]:
    """Return functions, what takes arrays of any strides last: other code is faster.

    They return NotImplemented where they are called with others than the code is for.
    """
    return [_load(code) for code in sorted(codes, key=_num_strided)]


def _num_strided(code: Code) -> int:
    return sum(taken.num_dimensions > 0 and not taken.contiguous for taken in code.taken)


def _load(code: Code) -> Callable[..., Any]:
    """Load code that is whole: LLVM would crash of another. Each has an engine, since all have one name."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target().create_target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.object_file))
    engine.finalize_object()
    method = _MethodDef(ENTRY.encode(), engine.get_function_address(ENTRY), _METH_FASTCALL, None)
    _engines.append((engine, method))
    # numpy never frees these
    dtypes = [id(np.dtype(taken.kind)) for taken in code.taken if taken.num_dimensions]
    return _new_function(ctypes.byref(method), _shared() + struct.pack(f"={len(dtypes)}Q", *dtypes), None)


@cache
def _shared() -> bytes:
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in FUNCTIONS]
    return struct.pack(f"={len(OBJECTS) + len(FUNCTIONS)}Q", *map(id, OBJECTS), *functions)


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())
