"""Feature flags: bits by which a manifest says what a reader or a writer of the table must understand.

Spec: table format, feature flags. Each bit behaves as in pylance 14, tested bit by bit.
"""

from __future__ import annotations

from enum import IntFlag

from lance_df.errors import CorruptDataError, UnsupportedFeatureError


class FeatureFlag(IntFlag):
    """Bits of `Manifest.reader_feature_flags` and `writer_feature_flags`."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILE = 32
    DATA_OVERLAYS = 64
    COVERING_FIELDS = 128
    MIXED_FILE_VERSIONS = 256
    FRAGMENT_TREE = 512
    FRAGMENT_REUSE_INDEX = 1024
    SPILLED_ROW_LINEAGE = 2048
    MANAGED_BLOBS = 16384
    NON_REUSABLE_FIELD_IDS = 32768
    ZONE_WRITE_SEEDS = 65536


# Bits that pylance 14 refuses as corrupt when only one of the two words has them.
#
# The constants are plain integers: the complement of an `IntFlag` keeps only the bits of its members.
PAIRED = int(
    FeatureFlag.MIXED_FILE_VERSIONS
    | FeatureFlag.FRAGMENT_REUSE_INDEX
    | FeatureFlag.MANAGED_BLOBS
    | FeatureFlag.ZONE_WRITE_SEEDS
)

# None of these flags changes what a scan returns: data files are read by the version that each of them
# names, covering fields only concern the use of indices, and indices are not used in tables with later forms
# of the fragment reuse index, which are the ones with this flag (see `lance_df.format.fragment_reuse`).
READABLE = int(
    FeatureFlag.DELETION_FILES
    | FeatureFlag.STABLE_ROW_IDS
    | FeatureFlag.V2_FORMAT
    | FeatureFlag.TABLE_CONFIG
    | FeatureFlag.BASE_PATHS
    | FeatureFlag.NO_TRANSACTION_FILE
    | FeatureFlag.COVERING_FIELDS
    | FeatureFlag.MIXED_FILE_VERSIONS
    | FeatureFlag.FRAGMENT_REUSE_INDEX
    | FeatureFlag.SPILLED_ROW_LINEAGE
    | FeatureFlag.MANAGED_BLOBS
)

# Any other bit stands for something that a writer would have to maintain.
WRITABLE = int(
    FeatureFlag.DELETION_FILES
    | FeatureFlag.STABLE_ROW_IDS
    | FeatureFlag.V2_FORMAT
    | FeatureFlag.TABLE_CONFIG
    | FeatureFlag.BASE_PATHS
    | FeatureFlag.NO_TRANSACTION_FILE
    | FeatureFlag.MIXED_FILE_VERSIONS
    | FeatureFlag.NON_REUSABLE_FIELD_IDS
)


def check_readable(*, reader: int, writer: int, has_max_allocated_field_id: bool, source: str) -> None:
    """Check that a table may be read.

    Parameters
    ----------
    reader, writer
        The two words of the manifest.
    has_max_allocated_field_id
        Whether the manifest has that field; it must be present exactly if flag 32768 is set.
    source
        The manifest, for messages.

    Raises
    ------
    UnsupportedFeatureError
        The reader word has a bit that this release does not support; the message names it.
    CorruptDataError
        A bit that must be set in both words is set in only one, or 32768 contradicts the manifest.
    """
    single = (reader ^ writer) & PAIRED
    if single:
        word = "reader" if reader & single else "writer"
        raise CorruptDataError(
            f"{source}: feature {_names(single)} is set in the {word} flags only, expected it in the flags "
            "of both readers and writers"
        )
    if unknown := reader & ~READABLE:
        raise UnsupportedFeatureError(
            f"{source}: reading the table needs feature {_names(unknown)}, which this release does not "
            "support; a newer release may support it"
        )
    if bool(writer & FeatureFlag.NON_REUSABLE_FIELD_IDS) != has_max_allocated_field_id:
        raise CorruptDataError(
            f"{source}: writer flag {FeatureFlag.NON_REUSABLE_FIELD_IDS} and max_allocated_field_id must "
            "be present together"
        )


def check_writable(*, writer: int, source: str) -> None:
    """Check that a new version may be written.

    Raises
    ------
    UnsupportedFeatureError
        The writer word has a bit that this release does not maintain; the message names it.
    """
    if unknown := writer & ~WRITABLE:
        raise UnsupportedFeatureError(
            f"{source}: changing the table needs feature {_names(unknown)}, which this release does not "
            "support; the table can only be read"
        )


def _names(flags: int) -> str:
    known = {int(flag): flag.name for flag in FeatureFlag}
    bits = [1 << bit for bit in range(flags.bit_length()) if flags >> bit & 1]
    return ", ".join(f"{bit} ({known[bit]})" if bit in known else str(bit) for bit in bits)
