"""How kernels are called: by kept machine code where some fits, otherwise by numba.

numba takes half a second of the processor to import and to call for the first time. What it has compiled is
kept as code that later processes load without it, in a fifteenth of the time.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.encodings.kernels.kept_code import KeptCode
    from lance_df.encodings.kernels.loaded_code import LoadedCode

    _Choice = Callable[[tuple[Any, ...]], Sequence[Callable[..., Any]]]

NOT_TAKEN: Final = object()


def caller(name: str, module: str) -> Callable[..., Any]:
    """Return what calls a kernel of a module."""
    kernel = _Kernel(name, module)
    known: dict[tuple[type, ...], _Choice] = {}

    def call(*arguments: Any) -> Any:
        types = tuple(map(type, arguments))
        choose = known.get(types)
        if choose is None:
            choose = known[types] = kernel.choice(types)
        for code in choose(arguments):
            returned = code(*arguments)
            if returned is not NOT_TAKEN:
                return returned
        return kernel.compiled(*arguments)

    return call


@cache
def kept_code() -> KeptCode | None:
    """Return the code that processes keep, None where they cannot."""
    try:
        from lance_df.encodings.kernels import array_fields
        from lance_df.encodings.kernels.kept_code import KeptCode, usual_folders

        return KeptCode(usual_folders()) if array_fields.are_as_expected() else None
    except (ImportError, OSError):
        return None


class _Kernel:
    """One kernel, as kept code and as numba has compiled it."""

    def __init__(self, name: str, module: str) -> None:
        self._name, self._module = name, module
        self._loaded: list[LoadedCode] | None = None
        self._dispatcher: Any = None
        self._num_seen = 0

    def choice(self, types: tuple[type, ...]) -> _Choice:
        """Return what tells which code arguments of these types may be for: that for their dtypes."""
        if self._loaded is None:
            self._loaded = self._load()
        by_dtypes: dict[tuple[int, ...], list[Callable[..., Any]]] = {}
        for code in self._loaded:
            call = code.caller(types)
            if call is not None:
                by_dtypes.setdefault(code.dtype_numbers, []).append(call)
        if len(by_dtypes) <= 1:
            only = [call for calls in by_dtypes.values() for call in calls]
            return lambda _: only
        arrays = [place for place, kind in enumerate(types) if kind is np.ndarray]

        def choose(arguments: tuple[Any, ...]) -> Sequence[Callable[..., Any]]:
            return by_dtypes.get(tuple([arguments[place].dtype.num for place in arrays]), ())

        return choose

    def compiled(self, *arguments: Any) -> Any:
        """Call it by numba, and keep what that compiles."""
        if self._dispatcher is None:
            self._dispatcher = getattr(import_module(f"{__package__}.{self._module}"), self._name)
        returned = self._dispatcher(*arguments)
        # where numba is told to compile nothing there are none
        if len(getattr(self._dispatcher, "overloads", ())) > self._num_seen:
            self._keep()
        return returned

    def _load(self) -> list[LoadedCode]:
        kept = kept_code()
        codes = kept.load(self._name) if kept else []
        if not codes:
            return []
        from lance_df.encodings.kernels.loaded_code import load_all

        return load_all(codes)

    def _keep(self) -> None:
        seen, self._num_seen = self._num_seen, len(self._dispatcher.overloads)
        kept = kept_code()
        if kept is None or not kept.may_be_written:
            return
        try:
            from lance_df.encodings.kernels.machine_code import codes_from

            for code in codes_from(self._dispatcher, seen):
                kept.keep(self._name, code)
        except Exception:  # noqa: BLE001 - other releases of numba may work in other ways inside
            kept.may_be_written = False
