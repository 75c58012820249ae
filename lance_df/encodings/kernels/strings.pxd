from lance_df.encodings.kernels.pages cimport Page


cdef Py_ssize_t offsets_start(Page page, Py_ssize_t chunk, Py_ssize_t start) noexcept nogil
