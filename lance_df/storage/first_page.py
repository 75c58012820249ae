"""List the first files of a folder with one request, in stores that list names in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.storage.location import Entry
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from lance_df.storage.location import Location


_ORDERED = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"})
# the suffix of S3 directory buckets, which list in any order
_UNORDERED_BUCKET = "--x-s3"


def lists_in_order(folder: Location) -> bool:
    """Whether the store is known to list names in order."""
    if folder.path.lstrip("/").partition("/")[0].endswith(_UNORDERED_BUCKET):
        return False
    return not _ORDERED.isdisjoint(_protocols(folder))


def first_files(folder: Location, count: int) -> tuple[list[Entry], bool] | None:
    """Return the first ``count`` files in the order of their names, and whether these are all.

    Returns
    -------
    ``None`` for stores without such a request or with another order; list the whole folder instead.

    Raises
    ------
    NotFoundError
        There is no such bucket.
    StorageError
        The store failed.
    """
    if not lists_in_order(folder):
        return None
    fs: Any = folder.fs
    protocols = _protocols(folder)
    with translate_errors(folder.uri):
        if protocols & {"s3", "s3a"} and hasattr(fs, "call_s3"):
            return _first_of_s3(fs, folder.path, count)
        if protocols & {"gs", "gcs"} and hasattr(fs, "call"):
            return _first_of_gcs(fs, folder.path, count)
    return None


def _protocols(folder: Location) -> set[str]:
    protocol = folder.fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def _first_of_s3(fs: Any, path: str, count: int) -> tuple[list[Entry], bool]:
    bucket, key, _ = fs.split_path(path)
    prefix = f"{key.strip('/')}/"
    page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, Delimiter="/", MaxKeys=count)
    objects = [(str(item["Key"]), item["Size"], item.get("ETag")) for item in page.get("Contents", ())]
    return _entries(objects, prefix), not page.get("IsTruncated")


def _first_of_gcs(fs: Any, path: str, count: int) -> tuple[list[Entry], bool]:
    bucket, key, _ = fs.split_path(path)
    prefix = f"{key.strip('/')}/"
    page = fs.call("GET", "b/{}/o", bucket, prefix=prefix, delimiter="/", maxResults=count, json_out=True)
    objects = [(str(item["name"]), item["size"], item.get("etag")) for item in page.get("items", ())]
    return _entries(objects, prefix), not page.get("nextPageToken")


def _entries(objects: list[tuple[str, Any, Any]], prefix: str) -> list[Entry]:
    return [
        Entry(name.removeprefix(prefix), int(size), False, str(mark or ""))
        for name, size, mark in objects
        if name != prefix
    ]
