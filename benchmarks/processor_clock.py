"""Locant's command with the processor time of its own work as its clock, so that minutes count nothing else.

Usage: python benchmarks/processor_clock.py train RECIPE --minutes 9 --output RUN

Beside other work such minutes shorten no training. The threads of a process add up to its processor time, so it is one.
"""

from __future__ import annotations

import os
import sys
import time


def use_processor_time() -> None:
    """Let every clock of this process count its own work; call before Locant is imported."""
    time.perf_counter = time.process_time


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    use_processor_time()
    from locant.cli import main

    sys.exit(main())
