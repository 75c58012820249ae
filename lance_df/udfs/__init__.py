"""UDFs of the partitioning spec for DataFusion. The modules are in the top-level folder `udfs`."""

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
if (_CHECKOUT / "pyproject.toml").is_file():  # absent once installed from a wheel
    __path__.append(str(_CHECKOUT / "udfs"))
