"""Run `lance-df` as `python -m lance_df.cli`."""

import sys

from lance_df.cli import main

sys.exit(main())
