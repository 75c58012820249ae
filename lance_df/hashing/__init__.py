"""Murmur3 (x86, 32 bit, seed 0) of Arrow arrays: `murmur3` of one column, `murmur3_multi` of several.

Equal values of one class have equal hashes, whatever their type. Each value is hashed as its canonical bytes:

===========================================  ================================================================
class                                        canonical bytes
===========================================  ================================================================
integers of any width                        8 bytes, little endian, two's complement
booleans                                     as the integers 0 and 1
floats of any width                          as a double, 8 bytes, little endian; -0.0 as 0.0, every NaN as
                                             0x7ff8000000000000
decimals of any width, precision and scale   without trailing zeros of the fraction: the unscaled integer in
                                             two's complement, big endian, in as few bytes as possible, then
                                             one byte with the remaining scale, unless that is 0
text of any layout, also dictionaries        UTF-8
binary of any layout, also dictionaries      the bytes
dates                                        days since 1970-01-01, as an integer
timestamps of any unit, with a zone or not   microseconds since 1970-01-01 (UTC), rounded down, as an integer,
                                             modulo 2**64
times of day, durations                      microseconds, rounded down, as an integer, modulo 2**64
===========================================  ================================================================

Integers, dates, text and binary hash as in Iceberg's bucket transform (test vector: the integer 34 gives
2017239379). NULL hashes to NULL. `murmur3_multi` hashes the canonical bytes of its columns in order, one
after another; NULL contributes no bytes, and the result is NULL only if all are NULL. Nested types have no
hash.

The kernels are compiled when the package is installed. The tests compare them with mmh3, which computes the
same.
"""

from lance_df.hashing.arrays import canonical_bytes, murmur3, murmur3_multi, murmur3_of_lists

__all__ = ["canonical_bytes", "murmur3", "murmur3_multi", "murmur3_of_lists"]
