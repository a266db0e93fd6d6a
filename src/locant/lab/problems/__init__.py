"""Problems with exact answers, whose questions exist in every length."""

from locant.lab.problems.addition import Addition
from locant.lab.problems.chains import Chains
from locant.lab.problems.commands import Commands
from locant.lab.problems.copying import Copy
from locant.lab.problems.edits import Edits
from locant.lab.problems.parity import Parity
from locant.lab.problems.polynomial import Polynomial
from locant.lab.problems.problem import Problem
from locant.lab.problems.reverse import Reverse
from locant.lab.problems.sorting import Sorting
from locant.lab.problems.summation import Summation

PROBLEMS: dict[str, type[Problem]] = {
    problem.name: problem
    for problem in (Copy, Reverse, Addition, Sorting, Summation, Parity, Polynomial, Chains, Commands, Edits)
}

__all__ = ["PROBLEMS", "Problem"]
