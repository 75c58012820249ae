"""How kernels are called: by kept machine code where some fits, otherwise by numba.

numba takes half a second of the processor to import and to call for the first time. What it has compiled is
kept as code that later processes load without it, in a fifteenth of the time.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.kernels.kept_code import KeptCode


def caller(name: str, module: str) -> Callable[..., Any]:
    """Return what calls a kernel of a module."""
    kernel = _Kernel(name, module)

    def load(*arguments: Any) -> Any:
        codes[:] = kernel.load()
        return call(*arguments)

    codes: list[Callable[..., Any]] = [load]

    def call(*arguments: Any) -> Any:
        for code in codes:
            returned = code(*arguments)
            if returned is not NotImplemented:
                return returned
        return kernel.compiled(*arguments)

    return call


@cache
def kept_code() -> KeptCode | None:
    """Return the code that processes keep, None where they cannot."""
    try:
        from lance_df.encodings.kernels import object_fields
        from lance_df.encodings.kernels.kept_code import KeptCode, usual_folders

        return KeptCode(usual_folders()) if object_fields.are_as_expected() else None
    except (ImportError, OSError):
        return None


class _Kernel:
    """One kernel, as kept code and as numba has compiled it."""

    def __init__(self, name: str, module: str) -> None:
        self._name, self._module = name, module
        self._dispatcher: Any = None
        self._num_seen = 0

    def load(self) -> list[Callable[..., Any]]:
        """Return kept code: functions that return NotImplemented for arguments that they do not take."""
        kept = kept_code()
        codes = kept.load(self._name) if kept else []
        if not codes:
            return []
        from lance_df.encodings.kernels.loaded_code import load_all

        return load_all(codes)

    def compiled(self, *arguments: Any) -> Any:
        """Call it by numba, and keep what that compiles."""
        if self._dispatcher is None:
            self._dispatcher = getattr(import_module(f"{__package__}.{self._module}"), self._name)
        returned = self._dispatcher(*arguments)
        # where numba is told to compile nothing there are none
        if len(getattr(self._dispatcher, "overloads", ())) > self._num_seen:
            self._keep()
        return returned

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
