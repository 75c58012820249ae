"""How kernels are compiled, and the few memory operations that numba does not offer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lance_df.encodings.kernels.kept_code import sources

if TYPE_CHECKING:
    from collections.abc import Callable

with suppress(OSError):  # where they are no files
    sources()  # before any kernel is imported: none is kept as of sources that were written later


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` when it is first called; keep the machine code on disk where that is possible."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # neither beside the module nor in the user's cache folder may be written
        return numba.njit(nogil=True)(function)


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typing_context: Any, target: Any, source: Any, num_bytes: Any) -> Any:  # noqa: ARG001
    """Copy ``num_bytes`` from address ``source`` to address ``target``; they must not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        to, origin, size = arguments
        pointer = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(
            builder, builder.inttoptr(to, pointer), builder.inttoptr(origin, pointer), size, 1, align=1
        )
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.intp), generate


def _loading(bits: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        (origin,) = arguments
        pointer = builder.inttoptr(origin, ir.IntType(bits).as_pointer())
        return builder.load(pointer, align=1)

    return generate


def _storing(bits: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        to, word = arguments
        pointer = builder.inttoptr(to, ir.IntType(bits).as_pointer())
        builder.store(word, pointer, align=1)
        return context.get_dummy_value()

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def store_8_bytes(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Store ``value`` (uint64) at any address."""
    return types.void(types.uintp, types.uint64), _storing(64)


@intrinsic  # type: ignore[untyped-decorator]
def load_8_bytes(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Load a uint64 from any address."""
    return types.uint64(types.uintp), _loading(64)


@intrinsic  # type: ignore[untyped-decorator]
def load_4_bytes(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Load a uint32 from any address."""
    return types.uint32(types.uintp), _loading(32)


@intrinsic  # type: ignore[untyped-decorator]
def store_4_bytes(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Store ``value`` (int32) at any address."""
    return types.void(types.uintp, types.int32), _storing(32)


@intrinsic  # type: ignore[untyped-decorator]
def load_byte(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Load a uint8 from an address."""
    return types.uint8(types.uintp), _loading(8)


@intrinsic  # type: ignore[untyped-decorator]
def load_item(typing_context: Any, base: Any, index: Any, like: Any) -> Any:  # noqa: ARG001
    """Load item ``index`` of those of the type of ``like`` at an address; loops over it are vectorised."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        origin, place, kind = arguments
        pointer = builder.gep(builder.inttoptr(origin, kind.type.as_pointer()), [place])
        return builder.load(pointer, align=1)

    return like(types.uintp, types.uintp, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_item(typing_context: Any, base: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """Store item ``index`` of those of the type of ``value`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        origin, place, item = arguments
        builder.store(item, builder.gep(builder.inttoptr(origin, item.type.as_pointer()), [place]), align=1)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, value), generate


@intrinsic  # type: ignore[untyped-decorator]
def room_of_8_kib(typing_context: Any) -> Any:  # noqa: ARG001
    """Return the address of memory that lasts as long as the call of the kernel that asks for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(64), 1024))
        return builder.ptrtoint(room, context.get_value_type(types.uintp))

    return types.uintp(), generate
