"""DataFusion: providers, sessions, catalogs, functions, and what a scan would read."""

from lance_df.compute.typed_functions import register_udfs
from lance_df.engine.report import ScanReport
from lance_df.engine.session import SessionContext, connect, enable, register

__all__ = ["ScanReport", "SessionContext", "connect", "enable", "register", "register_udfs"]
