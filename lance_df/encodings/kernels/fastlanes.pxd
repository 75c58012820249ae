cdef void unpack_block(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t width, Py_ssize_t bits,
    unsigned char[::1] out, Py_ssize_t to,
) noexcept nogil
