"""Recognition of worked lines: equations whose last side is a printed number."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator

import numpy as np

from locant.figures.errata.findings import Cells, NumberFinding, like, tolerance
from locant.figures.errata.reading import Clause, Printed
from locant.figures.errata.table_formulas import RIGHT, WRONG

_CODE = re.compile(
    r"\bP(?:E|os)?[\s_]*[\[({]+\s*(?:p|pos)?\s*=?\s*(\d+)\s*[\])}]*\s*[,\[({]+\s*(?:\w+\s*=)?\s*(\d+)\s*[\])}]+$"
)
_RESULT = re.compile(
    r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:\s*\.\.\.)?(?:\s*\([^()]*\)|\s+[a-zA-Z][a-zA-Z ,]*)?\.?$"
)
_BEGINNING = re.compile(r"\b(?:math\.|np\.)?(?:sin|cos|exp|log|ln|sqrt)\s*\(|(?<![\w.])\d")
_LONGEST = 200  # letters before an equals sign
_ROOT = re.compile(r"\b10000\s*\*\*\s*\(\s*(\d+)\s*/\s*(\d+)\s*\)")
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "exp": math.exp,
    "log": math.log,
    "ln": math.log,
    "sqrt": math.sqrt,
    "pow": math.pow,
}
_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}


def clause_findings(clause: Clause) -> Iterator[NumberFinding]:
    """Yield what to say of an equation whose last side is a number."""
    result = _RESULT.match(clause.sides[-1])
    if result is None:
        return
    printed = Printed.of(result[1])
    for side in clause.sides[:-1]:
        code = _CODE.search(side)
        if code:
            yield _of_worked_code(clause, code[0], int(code[1]), int(code[2]), printed)
            return
        found = _expression(side[-_LONGEST:])
        if found is not None:
            yield _of_worked_number(clause, *found, printed)
            return


def _expression(side: str) -> tuple[str, str, float] | None:
    """Return the formula of numbers that a side ends with, as written and in Python, and its value."""
    for start in (0, *(match.start() for match in _BEGINNING.finditer(side))):
        if side[:start].rstrip().endswith(("*", "^", "/", "+", "-", "(", ",")):
            continue  # in the middle of a formula
        written = side[start:]
        expression = written.replace("^", "**").replace("{", "(").replace("}", ")")
        exact = _evaluated(expression) if re.search(r"[a-z]\s*\(|\*\*", expression) else None
        if exact is not None:
            return written, expression, exact
    return None


def _of_worked_code(clause: Clause, side: str, position: int, feature: int, printed: Printed) -> NumberFinding:
    if clause.width is None or feature >= clause.width:
        return NumberFinding(clause.line, f"{side}: say for which width, as in d = 512")
    cells = Cells(
        np.array([position]),
        np.array([feature]),
        np.array([[printed.value]]),
        np.array([[tolerance(printed)]]),
        clause.width,
    )
    exact = float(RIGHT[0].values(cells.positions, cells.features, clause.width)[0, 0])
    where = f"{side}, d = {clause.width}"
    if not cells.misfits(RIGHT[0]).any():
        return NumberFinding(clause.line, f"{where}: right in all printed digits")
    said = f"{where}: {printed.value:g} is printed; right is {like(exact)}"
    for formula in WRONG:
        if not cells.misfits(formula).any():
            return NumberFinding(
                clause.line, f"{said}. The number comes about where {formula.name}", formula.errata, True
            )
    if not cells.misfits(RIGHT[0], 1).any():
        return NumberFinding(clause.line, f"{said}. It is that of position {position + 1}: off by one", ("e21",), True)
    return NumberFinding(clause.line, said, wrong=True)


def _of_worked_number(clause: Clause, side: str, expression: str, exact: float, printed: Printed) -> NumberFinding:
    root = _ROOT.search(expression)
    if root and clause.width == int(root[2]) and int(root[1]) % 2:
        right = 10000 ** (2 * int(root[1]) / clause.width)
        said = f"{side}: for d = {clause.width} and i = {root[1]} the exponent is 2i/d, and the divisor {right:,.6g}"
        return NumberFinding(clause.line, said, ("e19",), wrong=True)
    if abs(exact - printed.value) <= tolerance(printed) + 1e-9 * abs(exact):
        return NumberFinding(clause.line, f"{side} = {printed.value:g}: right in all printed digits")
    said = f"{side}: {printed.value:g} is printed; right is {like(exact)}"
    wave = re.fullmatch(r"\s*(sin|cos)\s*\((.+)\)\s*", expression)
    angle = _evaluated(wave[2]) if wave else None
    if wave and angle is not None:
        function = _FUNCTIONS[wave[1]]
        for other, what, key in (
            (angle - 1, "off by one", "e21"),
            (angle**2, "the divisor is the square root of the right one", "e19"),
        ):
            if abs(function(other) - printed.value) <= tolerance(printed) and (key != "e21" or angle == int(angle)):
                said = f"{said}. The number is that of {wave[1]}({other:g}): {what}"
                return NumberFinding(clause.line, said, (key,), wrong=True)
    return NumberFinding(clause.line, said, wrong=True)


def _evaluated(expression: str) -> float | None:
    """Return the value of a formula of numbers, else ``None``."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError, TypeError):
        return None


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_value, arguments))
        case ast.Call(func=ast.Attribute(attr=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_value, arguments))
    raise ValueError
