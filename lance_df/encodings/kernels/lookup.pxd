cdef Py_ssize_t look_up_words(
    const unsigned char[::1] words, Py_ssize_t at, Py_ssize_t count, Py_ssize_t width,
    const unsigned char[::1] table, Py_ssize_t table_size, Py_ssize_t out_width,
    unsigned char[::1] out, Py_ssize_t to,
) noexcept nogil
