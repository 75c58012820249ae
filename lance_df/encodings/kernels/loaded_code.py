"""Machine code of kernels called without numba, by ctypes: other threads of Python run meanwhile."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from llvmlite import binding as llvm

from lance_df.encodings.kernels.calls import NOT_TAKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.encodings.kernels.kept_code import Code

ENTRY: Final = "lance_df_kernel"

# of what numba takes for a number of a type, what callers use
_NUMBERS: Final[dict[str, tuple[type, ...]]] = {
    "int64": (int, np.int64),
    "uint64": (np.uint64,),
    "bool": (bool, np.bool_),
}
_WORDS: Final = {"int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "bool": ctypes.c_int64}
_BEYOND: Final = 1 << 63
# code outlives whatever may run it
_engines: Final[list[Any]] = []


class LoadedCode:
    """Code for one signature of a kernel, ready to be called.

    Attributes
    ----------
    dtype_numbers
        Those of the arrays that it takes.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        words = [ctypes.py_object if taken.num_dimensions else _WORDS[taken.kind] for taken in code.taken]
        made = ctypes.CFUNCTYPE(ctypes.c_int32, *words, ctypes.c_void_p, ctypes.c_void_p)
        self._function = made(_load(code.object_file))
        dtypes = [np.dtype(taken.kind) for taken in code.taken if taken.num_dimensions]
        self.dtype_numbers = tuple([dtype.num for dtype in dtypes])
        # numpy never frees these
        self._dtypes = (ctypes.c_void_p * len(dtypes))(*[id(dtype) for dtype in dtypes])

    def caller(self, types: tuple[type, ...]) -> Callable[..., Any] | None:
        """Return what calls it with arguments of these types, None where it takes others.

        That returns what the kernel does, or `NOT_TAKEN` where the arrays or numbers are none that it takes.
        """
        code = self._code
        if len(types) != len(code.taken):
            return None
        for given, taken in zip(types, code.taken, strict=True):
            if given not in ((np.ndarray,) if taken.num_dimensions else _NUMBERS[taken.kind]):
                return None
        numbers = [place for place, given in enumerate(types) if given is int]
        scalars = [place for place, given in enumerate(types) if issubclass(given, np.generic)]
        function, dtypes, room = self._function, self._dtypes, ctypes.c_int64 * max(len(code.returned), 1)
        finish = _finishing(code)

        def call(*arguments: Any) -> Any:
            for place in numbers:
                if not -_BEYOND <= arguments[place] < _BEYOND:
                    return NOT_TAKEN
            results = room()
            return NOT_TAKEN if function(*arguments, dtypes, results) else finish(results)

        def call_with_scalars(*arguments: Any) -> Any:
            plain = list(arguments)
            for place in scalars:
                plain[place] = plain[place].item()
            return call(*plain)

        return call_with_scalars if scalars else call


def load_all(codes: Iterable[Code]) -> list[LoadedCode]:
    """Return all, what takes arrays of any strides last: other code is faster."""
    return [LoadedCode(code) for code in sorted(codes, key=_num_strided)]


def _num_strided(code: Code) -> int:
    return sum(taken.num_dimensions > 0 and not taken.contiguous for taken in code.taken)


def _finishing(code: Code) -> Callable[[Any], Any]:
    """Return what makes values of the words that an entry has written."""
    if not code.returned:
        return lambda _: None
    if code.returned == ("int64",) and not code.is_tuple:
        return lambda words: words[0]
    kinds = [_VALUES[kind] for kind in code.returned]

    def finish(words: Any) -> Any:
        values = tuple([kind(word) for kind, word in zip(kinds, words, strict=True)])
        return values if code.is_tuple else values[0]

    return finish


_VALUES: Final[dict[str, Callable[[int], Any]]] = {
    "int64": int,
    "uint64": lambda word: word % (1 << 64),
    "bool": bool,
}


def _load(object_file: bytes) -> int:
    """Return the address of the entry of a file that is whole: LLVM would crash of another.

    Each has an engine of its own, since all have the same name.
    """
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target().create_target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_file))
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address(ENTRY)


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())
