"""`python -m lance_df` is `lance-df`."""

import sys

from lance_df.cli import main

sys.exit(main())
