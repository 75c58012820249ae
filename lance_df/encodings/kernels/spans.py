"""Copy spans of bytes."""

from lance_df.encodings.kernels.jit import copy_bytes, kernel


@kernel
def copy_spans(data, starts, sizes, out, out_starts):  # type: ignore[no-untyped-def]
    """Copy span i of ``data`` to ``out_starts[i]`` of ``out``. The caller has checked that all lie within."""
    source = data.ctypes.data
    target = out.ctypes.data
    for i in range(len(starts)):
        copy_bytes(target + out_starts[i], source + starts[i], sizes[i])
