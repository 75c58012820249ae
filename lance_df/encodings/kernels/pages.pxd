cdef class Page:
    cdef const unsigned char[::1] data
    cdef const long long[::1] positions
    cdef const long long[::1] items
    cdef const unsigned char[::1] table
    cdef Py_ssize_t num_chunks
    cdef Py_ssize_t levels
    cdef Py_ssize_t wide
    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t table_size
    cdef readonly Py_ssize_t out_width


cdef Py_ssize_t chunk_of(Page page, Py_ssize_t row) noexcept nogil
cdef Py_ssize_t value_start(Page page, Py_ssize_t chunk) noexcept nogil
cdef Py_ssize_t value_size(Page page, Py_ssize_t chunk) noexcept nogil
cdef Py_ssize_t packed_width(Page page, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef Py_ssize_t run_values(Page page, Py_ssize_t chunk) noexcept nogil
cdef Py_ssize_t run_lengths(Page page, Py_ssize_t chunk) noexcept nogil
cdef Py_ssize_t count_runs(Page page, Py_ssize_t chunk) noexcept nogil
