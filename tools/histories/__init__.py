"""Random histories of tables and namespaces, compared with a model in plain Python after each step."""

# operations are registered where they are defined
from . import namespace_columns as namespace_columns
from . import namespace_rows as namespace_rows
from . import namespace_upkeep as namespace_upkeep
from . import statements as statements
from . import table_columns as table_columns
from . import table_rows as table_rows
from . import table_upkeep as table_upkeep
from .drawing import run_random, run_seed

__all__ = ["run_random", "run_seed"]
