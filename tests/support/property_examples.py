"""How many examples tests of properties take: by ``LOCANT_EXAMPLES`` in the environment so many times as many."""

import os

TIMES = int(os.environ.get("LOCANT_EXAMPLES", "1"))
