"""DataFusion: table providers, sessions, catalogs, functions, and reports on scans."""

from typing import TYPE_CHECKING, Any

from lance_df.compute.typed_functions import register_udfs
from lance_df.engine.session import SessionContext, connect, enable
from lance_df.engine.tables.names import register

if TYPE_CHECKING:
    from lance_df.engine.report import ScanReport

__all__ = ["ScanReport", "SessionContext", "connect", "enable", "register", "register_udfs"]


def __getattr__(name: str) -> Any:
    if name != "ScanReport":
        raise AttributeError(f"module 'lance_df.engine' has no attribute {name!r}")
    from lance_df.engine.report import ScanReport

    return ScanReport
