"""A manifest store in DynamoDB, with the layout of Lance's ``s3+ddb://`` tables, which pylance also uses.

Spec: table format, DynamoDB table; items as pylance 14 writes them.
"""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from lance_df.arguments import checked_text
from lance_df.errors import (
    CommitStateUnknownError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    MissingDependencyError,
    StorageError,
)
from lance_df.storage.options import named_options, s3_options
from lance_df.storage.translate import was_refused
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.versions import VERSIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEME = "s3+ddb://"
_TABLE_PARAMETER = "ddbTableName"
_KEYS = {("base_uri", "HASH"), ("version", "RANGE")}
_NO_ANSWER = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ValueError", "InvalidURL"})
_CONDITION_FAILED = "ConditionalCheckFailedException"


class DynamoDBManifestStore:
    """A store that records the versions of tables of one bucket in a DynamoDB table.

    The DynamoDB table must exist, with the hash key ``base_uri`` (string) and the range key ``version``
    (number). The paths in it do not contain the bucket, so several buckets must not share a DynamoDB table.

    Parameters
    ----------
    table_name
        The name of the DynamoDB table.
    storage_options
        The storage options of the table, with the names of s3fs or of Lance; and ``dynamodb_endpoint``.
        Missing options are taken from the environment, as usual with AWS.
    committer
        The application name to record.
    """

    def __init__(
        self,
        table_name: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        committer: str = "lance_df",
    ) -> None:
        if not checked_text(table_name, "table_name"):
            raise InvalidInputError(f"the name of a DynamoDB table must not be empty, got {table_name!r}")
        self.table_name = table_name
        self._committer = committer
        options = s3_options(named_options(storage_options))
        region = (options.get("client_kwargs") or {}).get("region_name")
        self._client_arguments = (
            options.get("dynamodb_endpoint") or os.environ.get("DYNAMODB_ENDPOINT"),
            region,
            options.get("key"),
            options.get("secret"),
            options.get("token"),
            options.get("profile"),
        )

    def __repr__(self) -> str:
        return f"DynamoDBManifestStore({self.table_name!r})"

    def get(self, table: str, version: int) -> StoredManifest | None:
        """Return the entry of a version, or None."""
        with self._reading():
            answer = self._client().get_item(
                TableName=self.table_name, Key=_key(table, version), ConsistentRead=True
            )
        return self._parse(table, answer["Item"]) if "Item" in answer else None

    def get_latest(self, table: str) -> StoredManifest | None:
        """Return the entry of the highest recorded version, or None."""
        items = self._query(table, ScanIndexForward=False, Limit=1)["Items"]
        return self._parse(table, items[0]) if items else None

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        """Record a version that has no entry yet. Return whether it was recorded."""
        return self._put(table, manifest, "attribute_not_exists(base_uri) AND attribute_not_exists(version)")

    def put_if_exists(self, table: str, manifest: StoredManifest) -> bool:
        """Replace the entry of a version. Return whether there was one."""
        return self._put(table, manifest, "attribute_exists(base_uri) AND attribute_exists(version)")

    def delete(self, table: str, version: int | None = None) -> None:
        """Delete the entry of one version, or all entries of a table. Missing entries are ignored."""
        if version is not None:
            self._write("delete_item", Key=_key(table, version))
            return
        start: dict[str, Any] = {}
        while True:
            page = self._query(table, ProjectionExpression="base_uri, version", **start)
            for item in page["Items"]:
                self._write("delete_item", Key=item)
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _put(self, table: str, manifest: StoredManifest, condition: str) -> bool:
        item = {
            **_key(table, manifest.version),
            "path": {"S": f"{_base_uri(table)}/{VERSIONS_DIR}/{manifest.name}"},
            "committer": {"S": self._committer},
        }
        if manifest.size is not None:
            item["size"] = {"N": str(manifest.size)}
        return self._write("put_item", Item=item, ConditionExpression=condition)

    def _query(self, table: str, **arguments: Any) -> dict[str, Any]:
        with self._reading():
            answer: dict[str, Any] = self._client().query(
                TableName=self.table_name,
                ConsistentRead=True,
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": _base_uri(table)}},
                **arguments,
            )
        return answer

    def _write(self, method: str, **arguments: Any) -> bool:
        """Send a write; return whether its condition was met."""
        with self._reading():
            client = self._client()
        try:
            getattr(client, method)(TableName=self.table_name, **arguments)
        except Exception as err:  # noqa: BLE001 - as above
            if _code(err) == _CONDITION_FAILED:
                return False
            if was_refused(err):
                raise self._failure(err) from None
            raise CommitStateUnknownError(
                f"DynamoDB table {self.table_name}: the write failed with an unknown outcome ({_code(err)})"
            ) from None
        return True

    def _parse(self, table: str, item: Mapping[str, Any]) -> StoredManifest:
        prefix = f"{_base_uri(table)}/{VERSIONS_DIR}/"
        try:
            path = str(item["path"]["S"]).lstrip("/")
            version = int(item["version"]["N"])
            size = int(item["size"]["N"]) if "size" in item else None
        except (KeyError, TypeError, ValueError) as err:
            raise CorruptDataError(
                f"DynamoDB table {self.table_name}: an item of {table} is corrupt"
            ) from err
        if not path.startswith(prefix):
            raise CorruptDataError(
                f"DynamoDB table {self.table_name}: the path {path!r} of version {version} of {table} is "
                f"not in {VERSIONS_DIR}"
            )
        return StoredManifest(version, path.removeprefix(prefix), size)

    def _client(self) -> Any:
        client = _client(*self._client_arguments)
        _check_keys(client, self.table_name)
        return client

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except LanceError:
            raise
        except Exception as err:  # noqa: BLE001 - botocore's errors share no base
            raise self._failure(err) from None

    def _failure(self, err: Exception) -> StorageError:
        code = _code(err)
        return StorageError(f"DynamoDB table {self.table_name}: {code}{self._advice(code)}")

    def _advice(self, code: str) -> str:
        server = _described(self._client_arguments[0])
        if code == "ResourceNotFoundException":
            return f"; {server} has no such table: create it, with the keys base_uri and version"
        if code in _NO_ANSWER:
            return f"; {server} cannot be used: check the storage option dynamodb_endpoint"
        return ""


def parse_dynamodb_url(url: str) -> tuple[str, str]:
    """Split a URL ``s3+ddb://bucket/path?ddbTableName=T`` into the ``s3://`` URL and the table name.

    Raises
    ------
    InvalidInputError
        The URL does not have exactly this one parameter.
    """
    path, _, query = url.removeprefix(SCHEME).partition("?")
    parameters = parse_qs(query, keep_blank_values=True)
    names = parameters.get(_TABLE_PARAMETER, [])
    if len(parameters) != 1 or len(names) != 1 or not names[0]:
        raise InvalidInputError(
            f"{SCHEME}{path}: the URL must end with ?{_TABLE_PARAMETER}=<name>, the name of a DynamoDB table"
        )
    return f"s3://{path}", names[0]


def _described(endpoint: str | None) -> str:
    """Return the name of an endpoint for messages, without a user and a password, which a URL may hold."""
    try:
        url = urlsplit(endpoint or "")
    except ValueError:  # it is no URL
        return "the endpoint"
    host = url.netloc.rpartition("@")[2]
    return f"the endpoint {url.scheme}://{host}" if host else "the endpoint"


def _base_uri(table: str) -> str:
    """Return the key of a table: its path without the bucket."""
    scheme, separator, path = table.partition("://")
    return path.partition("/")[2] if separator else scheme.lstrip("/")


def _key(table: str, version: int) -> dict[str, Any]:
    return {"base_uri": {"S": _base_uri(table)}, "version": {"N": str(version)}}


def _code(err: Exception) -> str:
    response = getattr(err, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(code or type(err).__name__)


@functools.lru_cache(maxsize=16)
def _client(
    endpoint: str | None,
    region: str | None,
    key: str | None,
    secret: str | None,
    token: str | None,
    profile: str | None,
) -> Any:
    """Return a client, shared by all threads: creating one takes longer than many requests."""
    try:
        import botocore.session
    except ImportError as err:
        raise MissingDependencyError(f"{SCHEME} needs botocore: pip install 'lance_df[s3]'") from err
    session = botocore.session.Session(profile=profile)
    return session.create_client(
        "dynamodb",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
    )


@functools.lru_cache(maxsize=64)
def _check_keys(client: Any, table_name: str) -> None:
    """Check, once, that the table has the hash and range keys that conditional writes rely on."""
    schema = client.describe_table(TableName=table_name)["Table"]["KeySchema"]
    if {(key["AttributeName"], key["KeyType"]) for key in schema} != _KEYS:
        raise StorageError(
            f"DynamoDB table {table_name}: its key schema must be base_uri (HASH) and version (RANGE)"
        )
