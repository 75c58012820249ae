"""Run the conformance corpus, or answer the requests of a runner with ``--serve``."""

import sys

from lance_df.conformance.command import main

sys.exit(main())
