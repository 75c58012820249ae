# Words at any byte of an array. Without bounds checks, as C has it: see memory.py. A checked build checks
# every index, here those of the first and the last byte. In other builds, a statement that only takes an
# address is no code.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset


cdef inline uint16_t load_16(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef uint16_t word
    &data[at]
    memcpy(&word, &data[at + 1] - 1, 2)
    return word


cdef inline uint32_t load_32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef uint32_t word
    &data[at]
    memcpy(&word, &data[at + 3] - 3, 4)
    return word


cdef inline uint64_t load_64(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef uint64_t word
    &data[at]
    memcpy(&word, &data[at + 7] - 7, 8)
    return word


cdef inline void store_16(unsigned char[::1] data, Py_ssize_t at, uint16_t word) noexcept nogil:
    &data[at]
    memcpy(&data[at + 1] - 1, &word, 2)


cdef inline void store_32(unsigned char[::1] data, Py_ssize_t at, uint32_t word) noexcept nogil:
    &data[at]
    memcpy(&data[at + 3] - 3, &word, 4)


cdef inline void store_64(unsigned char[::1] data, Py_ssize_t at, uint64_t word) noexcept nogil:
    &data[at]
    memcpy(&data[at + 7] - 7, &word, 8)


# with a constant width only one branch is left
cdef inline uint64_t load_word(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t width) noexcept nogil:
    if width == 1:
        return data[at]
    if width == 2:
        return load_16(data, at)
    if width == 4:
        return load_32(data, at)
    return load_64(data, at)


cdef inline void store_word(
    unsigned char[::1] data, Py_ssize_t at, uint64_t word, Py_ssize_t width
) noexcept nogil:
    if width == 1:
        data[at] = <uint8_t>word
    elif width == 2:
        store_16(data, at, <uint16_t>word)
    elif width == 4:
        store_32(data, at, <uint32_t>word)
    else:
        store_64(data, at, word)


cdef inline void copy_bytes(
    unsigned char[::1] out, Py_ssize_t to, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size
) noexcept nogil:
    if size > 0:
        &out[to]
        &data[at]
        memcpy(&out[to + size - 1] - (size - 1), &data[at + size - 1] - (size - 1), size)


cdef inline void copy_ahead(
    unsigned char[::1] out, Py_ssize_t to, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size
) noexcept nogil:
    # to copy what most values fit into takes neither a call nor a branch that depends on their size
    cdef unsigned char line[32]
    if at + 32 <= data.shape[0] and to + 32 <= out.shape[0]:
        memcpy(line, &data[at], 32)
        memcpy(&out[to], line, 32)
        if size > 32:
            memcpy(&out[to + size - 1] - (size - 33), &data[at + size - 1] - (size - 33), size - 32)
    else:
        copy_bytes(out, to, data, at, size)
