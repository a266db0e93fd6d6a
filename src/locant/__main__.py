"""Run the command line as ``python -m locant`` (and ``torchrun -m locant``)."""

import sys

from locant.cli import main

sys.exit(main())
