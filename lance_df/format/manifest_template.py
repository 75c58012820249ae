"""Parse only the fragments of manifests whose other content is known from another manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df._pb import table_pb2
from lance_df.format.manifest import NANOS
from lance_df.format.messages import parse_message

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.manifest import Manifest
    from lance_df.format.moved_fragments import FragmentMessages

# the fields that may differ between versions and tables without any effect on reading rows
_DIFFERING: tuple[Any, ...] = (
    *("fragments", "version", "timestamp", "max_fragment_id"),
    *("transaction_file", "transaction_section", "transaction_section_deprecated"),
)


class ManifestTemplate:
    """The shared content of manifests that differ only in their fragments, version and transaction.

    Parameters
    ----------
    manifest
        A manifest that was read. It must not be of 0.1, whose manifests hold values of dictionaries.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._common = table_pb2.Manifest()
        if manifest.origin is not None:
            self._common.CopyFrom(manifest.origin)
        _clear(self._common)

    def fragments(
        self, data: pa.Buffer, *, source: str, until_ns: int | None = None
    ) -> FragmentMessages | None:
        """Return the fragments of a manifest block, or None if it does not match the template.

        Parameters
        ----------
        until_ns
            Blocks with a later timestamp do not match.

        Raises
        ------
        CorruptDataError
            The block is not a manifest.
        """
        message = parse_message(table_pb2.Manifest, data, source=source, what="the manifest")
        time = message.timestamp
        if until_ns is not None and time.seconds * NANOS + time.nanos > until_ns:
            return None
        fragments = list(message.fragments)
        _clear(message)
        return fragments if message == self._common else None


def _clear(message: table_pb2.Manifest) -> None:
    for name in _DIFFERING:
        message.ClearField(name)
