"""The table function `lance_scan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_df.compute.compat import PlainSessionContext, udtf
from lance_df.compute.expressions import kind_of, shown
from lance_df.engine.provider import LanceTableProvider, SourceScan
from lance_df.engine.statement import current_statement
from lance_df.engine.tables.source import TableSource
from lance_df.errors import InvalidInputError, LanceError
from lance_df.table.metadata.refs import VersionRef

SCAN_FUNCTION = "lance_scan"
# the name in plans of a table that a call returns
_SCANNED = f"{SCAN_FUNCTION}()"


def register_scan_function(ctx: PlainSessionContext, storage_options: Mapping[str, Any] | None) -> None:
    """Register ``lance_scan('path')`` and ``lance_scan('path', version)`` with a version number or a tag."""

    def lance_scan(*arguments: Any) -> Any:
        statement = current_statement()
        try:
            path, version = _path_and_version(arguments)

            def source() -> TableSource:
                return TableSource(path, version=version, storage_options=storage_options)

            if statement is None:
                return LanceTableProvider(SourceScan(source=source().current()))
            known = statement.source_once((SCAN_FUNCTION, path, version), source)
            return statement.resolve(known, None, _SCANNED)
        except LanceError as err:
            if statement is not None:
                statement.errors.append(err)
            raise

    ctx.register_udtf(udtf(lance_scan, SCAN_FUNCTION))


def _path_and_version(arguments: tuple[Any, ...]) -> tuple[str, VersionRef | None]:
    if not 1 <= len(arguments) <= 2:
        raise InvalidInputError(
            f"{SCAN_FUNCTION} needs a path and optionally a version, got {len(arguments)} arguments"
        )
    values = [_constant(argument) for argument in arguments]
    path, version = values[0], values[1] if len(values) == 2 else None
    if not isinstance(path, str):
        raise InvalidInputError(f"{SCAN_FUNCTION} needs a path in quotes, got {path!r}")
    if version is not None and not isinstance(version, int | str):
        raise InvalidInputError(f"the version must be a number or a tag, got {version!r}")
    return path, version


def _constant(argument: Any) -> object:
    if kind_of(argument) != "Literal":
        raise InvalidInputError(f"the arguments of {SCAN_FUNCTION} must be constants, got {shown(argument)}")
    value = argument.python_value()
    return value.as_py() if isinstance(value, pa.Scalar) else value
