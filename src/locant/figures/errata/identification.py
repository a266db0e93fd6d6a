"""Which formula gave an array of numbers, and which erratum is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from locant.errors import DataError
from locant.rotary_configs import identify

# What NumPy and PyTorch print around the numbers of an array.
_AROUND = re.compile(r"\b(?:array|tensor)\(|,?\s*\b(?:dtype|device)\s*=\s*[\w.:']+|\)")
_EXPONENTS = {"4i/d": ("e4",), "j/d": ("e33",), "2j/d": ("e33",)}
_BASES = {1000.0: ("e34",), 100.0: ("e19", "e34")}  # a base of 100 is also what is left of 10000 without the factor 2


@dataclass(frozen=True)
class NumberFinding:
    """An explanation of numbers.

    Attributes:
        said: A sentence or two.
        errata: Keys of the errata in them; none where nothing is wrong, or nothing known.
        wrong: Whether something is wrong.
        recognised: Whether a formula was found for them.
    """

    said: str
    errata: tuple[str, ...] = ()
    wrong: bool = False
    recognised: bool = True


def identify_array(values: Tensor, *, decimals: int | None = None) -> NumberFinding:
    """Say of a table or a vector of frequencies which formula gave it, and name known errors.

    Args:
        values: As for :func:`locant.rotary_configs.identify`, which does the work.
        decimals: Likewise.

    Raises:
        ConfigError: It is not a tensor of floating or complex numbers.

    Example:
        >>> import torch
        >>> from locant.positions import sinusoid_table
        >>> identify_array(sinusoid_table(torch.arange(1, 50), 16)).errata
        ('e21',)
    """
    found = identify(values, decimals=decimals)
    errata: tuple[str, ...] = ()
    if found.kind == "sinusoid table":
        errata = (*_EXPONENTS.get(found.exponent or "", ()), *_BASES.get(found.base or 0.0, ()))
        errata += ("e21",) * (found.first_row == 1 and found.padding_row is None)
    wrong = bool(found.mistakes or errata)
    return NumberFinding(str(found).rstrip("."), errata, wrong, recognised=found.kind != "unknown")


def identify_text(text: str) -> NumberFinding:
    r"""Say of an array as text which formula gave it, and name known errors.

    Args:
        text: An array as NumPy or PyTorch print it or Python writes it, or a row of numbers on each line, with two
            decimals or more. Each number must be right in all printed digits.

    Raises:
        DataError: It is not an array of numbers, or some were left out in printing.

    Example:
        >>> rows = "0 1 0 1 0 1", ".8415 .5403 .0022 1 0 1", ".9093 -.4161 .0043 1 0 1", ".1411 -.99 .0065 1 0 1"
        >>> identify_text("\n".join(rows)).errata
        ('e4',)
    """
    plain = _AROUND.sub(" ", text.replace("\N{MINUS SIGN}", "-"))
    rows = re.split(r"[\[\]]+", plain) if "[" in plain else plain.splitlines()
    cells = [row.replace(",", " ").split() for row in rows]
    try:
        numbers = torch.tensor([[float(each) for each in row] for row in cells if row], dtype=torch.float32)
    except ValueError as error:  # something that is no number, or rows of different lengths
        raise DataError(f"This is not an array of numbers: {error}. Give the array alone, or a row a line.") from None
    if not numbers.numel():
        raise DataError("There are no numbers.")
    decimals = max(map(len, re.findall(r"\.(\d*)", plain)), default=0)
    return identify_array(numbers, decimals=decimals if decimals >= 2 else None)
