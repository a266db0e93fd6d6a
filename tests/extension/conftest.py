import sys
from pathlib import Path

# The published configurations are those of the dialects' tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "positions" / "dialects"))
