from __future__ import annotations

import os

# One thread a process: small tensors gain nothing from more, and test processes do not wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
