"""`python -m lance_df.conformance` runs the corpus; with ``--serve`` it answers the requests of a runner."""

import sys

from lance_df.conformance.command import main

sys.exit(main())
