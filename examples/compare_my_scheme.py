"""A positional scheme of your own, checked and compared with two others.

Run it with ``python examples/compare_my_scheme.py``; it writes tables and pictures to the folder ``my-scheme``.
"""

import argparse

from logarithmic_bias import LogarithmicBias

from locant import compare
from locant.testing import check_scheme


def main() -> None:
    """Check the scheme, then compare it on copying letters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--output", default="my-scheme")
    options = parser.parse_args()
    print(check_scheme(LogarithmicBias))
    result = compare(
        "copy", ["logarithmic-bias", "alibi", "rotary"], steps=options.steps, seeds=1, output=options.output
    )
    for row in result.tables[0].rows:
        print(row.variant, {column: round(cell.mean, 1) for column, cell in row.cells.items() if cell.mean is not None})


if __name__ == "__main__":
    main()
