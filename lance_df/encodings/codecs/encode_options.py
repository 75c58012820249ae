"""Read the encoding options in a field's metadata, with the keys and meanings of Lance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.encodings_v2_1 import Scheme
    from lance_df.format.schema import Field

Structure: TypeAlias = Literal["miniblock", "fullzip"]
SplitBytes: TypeAlias = Literal["off", "on", "auto"]

_PREFIX = "lance-encoding:"
_SCHEMES = ("lz4", "zstd")
_DICTIONARY_RATIO = 0.8
_CHUNK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Compression:
    """A general-purpose compressor; ``level`` is for Zstandard, None for its default."""

    scheme: Scheme
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingOptions:
    """The options for encoding a leaf.

    Attributes
    ----------
    compression
        The compression around the chosen encoding; None for no compression.
    is_plain
        Whether all compression is turned off.
    use_fsst
        Whether strings and binaries are always encoded with FSST, even if that saves nothing.
    run_threshold
        Run-length encoding is used if there are fewer runs than this share of the values; None to decide by
        size.
    split_bytes
        Whether bytes of floats and integers are regrouped before they are compressed.
    dictionary_ratio
        A dictionary is used if it makes a page smaller than this share of its size; 0 for never.
    dictionary_divisor
        A dictionary may have at most the number of rows divided by this.
    dictionary_compression
        The compression of the dictionary's values, from 2.2 on.
    structure
        The requested layout; None to choose by size.
    chunk_bytes
        The target size of a chunk of strings.
    """

    compression: Compression | None = None
    is_plain: bool = False
    use_fsst: bool = False
    run_threshold: float | None = None
    split_bytes: SplitBytes = "auto"
    dictionary_ratio: float = _DICTIONARY_RATIO
    dictionary_divisor: int = 2
    dictionary_compression: Compression | None = Compression("lz4")
    structure: Structure | None = None
    chunk_bytes: int = _CHUNK_BYTES

    @property
    def is_default(self) -> bool:
        """Whether a field has no encoding options."""
        return self is _DEFAULT

    @classmethod
    def of(cls, field: Field) -> EncodingOptions:
        """Read the options of a field.

        Raises
        ------
        InvalidInputError
            A compression or structure does not exist. As in Lance, invalid numbers are ignored.
        """
        given = {
            key.removeprefix(_PREFIX): value.decode("utf-8", "replace")
            for key, value in field.metadata.items()
            if key.startswith(_PREFIX)
        }
        if not given:
            return _DEFAULT
        scheme = given.get("compression", "")
        structure = given.get("structural-encoding", "").lower()
        if structure not in ("", *get_args(Structure)):
            raise InvalidInputError(
                f"column {field.name!r}: unknown structural encoding {structure!r}; use miniblock or fullzip"
            )
        split = given.get("bss", "auto").lower()
        dictionary = given.get("dict-values-compression", "none" if scheme == "none" else "lz4")
        return cls(
            compression=_compression(field, scheme, given.get("compression-level")),
            is_plain=scheme == "none",
            use_fsst=scheme == "fsst",
            run_threshold=_number(given, "rle-threshold"),
            split_bytes=cast("SplitBytes", split) if split in get_args(SplitBytes) else "auto",
            dictionary_ratio=_share(given, "dict-size-ratio", _DICTIONARY_RATIO),
            dictionary_divisor=max(1, int(_number(given, "dict-divisor") or 2)),
            dictionary_compression=_compression(
                field, dictionary, given.get("dict-values-compression-level")
            ),
            structure=cast("Structure", structure) if structure else None,
            chunk_bytes=max(1, int(_number(given, "minichunk-size") or _CHUNK_BYTES)),
        )


_DEFAULT = EncodingOptions()


def _compression(field: Field, scheme: str, level: str | None) -> Compression | None:
    if scheme in ("", "none", "fsst"):
        return None
    if scheme not in _SCHEMES:
        raise InvalidInputError(
            f"column {field.name!r}: unknown compression {scheme!r}; use none, fsst, {', '.join(_SCHEMES)}"
        )
    number = _number({"level": level or ""}, "level")
    return Compression(cast("Scheme", scheme), None if number is None else int(number))


def _number(given: Mapping[str, str], key: str) -> float | None:
    try:
        number = float(given.get(key, ""))
    except ValueError:
        return None
    return number if 0 <= number < 1 << 31 else None


def _share(given: Mapping[str, str], key: str, default: float) -> float:
    number = _number(given, key)
    return default if number is None or not 0 < number <= 1 else number
