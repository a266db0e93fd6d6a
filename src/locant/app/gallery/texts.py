"""What the page says about each figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words around a figure.

    Attributes:
        title: Heading.
        text: Two or three sentences.
        formula: HTML of one line or more; the page places it as it is.
        points: Further sentences, listed.
    """

    title: str
    text: str
    formula: str
    points: tuple[str, ...] = ()


TEXTS: dict[str, Words] = {
    "clocks": Words(
        "A position is a row of wheels",
        "An odometer writes a position with wheels, each ten times slower than the one to its right; binary digits do "
        "the same by twos. Replace the wheels by hands that run smoothly, each pair of features at a pace of its own, "
        "and you have the sinusoids: few numbers, no two positions alike, and neighbours that differ only a little.",
        "hand of pair i at position p: &nbsp; angle&nbsp;= p&thinsp;ω<sub>i</sub>, &nbsp; "
        "ω<sub>i</sub>&nbsp;= 10000<sup>&minus;2i/d</sup>",
    ),
    "waves": Words(
        "The hands, seen from the side",
        "The two features of a pair are sine and cosine of its hand, so that along the text each pair draws two waves. "
        "A token receives the values on its vertical line: fast pairs tell it from its neighbours, slow ones say where "
        "in the text it stands.",
        "PE(p, 2i)&nbsp;= sin(p&thinsp;/&thinsp;10000<sup>2i/d</sup>) &nbsp;&nbsp; "
        "PE(p, 2i+1)&nbsp;= cos(p&thinsp;/&thinsp;10000<sup>2i/d</sup>) &nbsp;&nbsp; (Vaswani et al. 2017)",
    ),
    "heatmap": Words(
        "All of it as an image",
        "Every row is what one position adds to the embedding of its token. At the left the fast pairs alternate from "
        "row to row; to the right they slow down until sine stays near 0 and cosine near 1 for the whole text.",
        "row p&nbsp;= PE(p)&nbsp;= ( sin p&thinsp;ω<sub>0</sub>, cos p&thinsp;ω<sub>0</sub>, …, "
        "sin p&thinsp;ω<sub>d/2&minus;1</sub>, cos p&thinsp;ω<sub>d/2&minus;1</sub> )",
    ),
    "heatmaps": Words(
        "What others add to the embedding",
        "The three dialects of the sinusoids differ in the order of the features and in the spacing of the waves. "
        "Learned codes are noise until training shapes them; the bare index grows without bound, its share of the "
        "length depends on what length is declared, and binary digits jump.",
        "index: x<sub>0</sub>&nbsp;+ p &nbsp;&nbsp; normalised: x<sub>0</sub>&nbsp;+ p&thinsp;/&thinsp;(L&minus;1) "
        "&nbsp;&nbsp; binary: ⌊p&thinsp;/&thinsp;2<sup>i</sup>⌋ mod 2",
    ),
    "circle": Words(
        "A shift is a rotation",
        "On the circle of one pair, moving k tokens on turns the hand by the same angle from wherever it starts. So "
        "one matrix, which depends on k alone, turns the code of any position into that of the position k farther "
        "on: a model can learn to look k tokens back.",
        "PE(p + k)&nbsp;= M<sub>k</sub>&thinsp;PE(p), &nbsp; M<sub>k</sub>&nbsp;= "
        "[ cos kω &nbsp; sin kω ; &nbsp; &minus;sin kω &nbsp; cos kω ]",
    ),
    "dot-products": Words(
        "Near in the text, near in the code",
        "The product of two codes depends on their distance alone, which is why the matrices have equal diagonals. It "
        "falls at first and then ripples: the wider the code, the farther nearness can be trusted. A dot marks "
        "the first distance that looks nearer than the one before.",
        "PE(p) · PE(p + k)&nbsp;= Σ<sub>i</sub> cos(k&thinsp;ω<sub>i</sub>)",
    ),
    "distance": Words(
        "Attention fades with distance, on both sides alike",
        "Around any position the products fall to the left as to the right, so that on their own they cannot tell "
        "before from after. Rotary positions put the same cosines between queries and keys; the right panel is the "
        "bound that their authors prove for a score, which sinks as the tokens move apart.",
        "|score|&nbsp;≤ max<sub>i</sub> |h<sub>i+1</sub> &minus; h<sub>i</sub>| · Σ<sub>j</sub> |S<sub>j</sub>|, "
        "&nbsp; S<sub>j</sub>&nbsp;= Σ<sub>t&lt;j</sub> e<sup>i(m&minus;n)ω<sub>t</sub></sup> &nbsp;&nbsp; "
        "(Su et al. 2021, section 3.4.3)",
    ),
    "spectrum": Words(
        "Longer texts than the model was trained for",
        "A pair that made a full turn in training has seen every angle; the slower ones, above the dashed line, have "
        "not, and a longer text would turn them to angles the model never met. Each scaling slows pairs down in its "
        "own way: all alike (PI, position interpolation), more towards the slow end (NTK), or only those that need it.",
        "λ<sub>i</sub>&nbsp;= 2π&thinsp;/&thinsp;ω<sub>i</sub> tokens a turn; &nbsp; "
        "turns in training&nbsp;= L&thinsp;/&thinsp;λ<sub>i</sub>",
    ),
    "bias": Words(
        "Distance as a handicap",
        "Another family leaves queries and keys alone and adds a number to each attention score, which depends on the "
        "distance and the head. ALiBi and Sandwich are fixed; the others are trained and are shown as they begin.",
        "score(h, i, j)&nbsp;= q<sub>i</sub> · k<sub>j</sub>&thinsp;/&thinsp;√D + b<sub>h</sub>(i &minus; j); &nbsp; "
        "ALiBi: b<sub>h</sub>(k)&nbsp;= &minus;2<sup>&minus;8h/H</sup>&thinsp;k",
    ),
    "criteria": Words(
        "Five wishes for a position code",
        "Every position with a code of its own, a distance that is the same everywhere, defined for longer texts, "
        "bounded, and the same each time. The table is computed from the schemes themselves, with their default "
        "options; that a code extends means that it is defined there, not that a trained model reads such texts well.",
        "for all p ≠ q: code(p) ≠ code(q); &nbsp; d(code(p), code(p + k)) depends on k alone",
    ),
    "tutorial-errors": Words(
        "Four errors that many tutorials repeat",
        "Each panel holds a sentence or a line of code that is often met against the numbers. None of them stops a "
        "program from running, and so they are copied from text to text.",
        "ω<sub>i</sub>&nbsp;= 10000<sup>&minus;2i/d</sup>, &nbsp; i&nbsp;= 0 … d/2&minus;1 &nbsp;&nbsp; "
        "λ<sub>d/2&minus;1</sub>&nbsp;= 2π&thinsp;·&thinsp;10000<sup>1&minus;2/d</sup>&nbsp;&lt; "
        "2π&thinsp;·&thinsp;10000",
        (
            "The double exponent: a loop over the features 0, 2, 4 … already counts 2i. Doubling it again makes the "
            "waves so long that half of the features hardly move within any text.",
            "Distance and angle: near positions have near codes, but only up to a point. Beyond it the angle between "
            "two codes goes up and down, so that a farther token can look nearer.",
            "The order of the frequencies: the first pair is the fastest. The exponent grows with i, and it divides.",
            "Width and context: more features put more waves between the same two ends. How far the longest one "
            "reaches is set by the base, and how long a text can be read is set by the lengths seen in training.",
        ),
    ),
    "training": Words(
        "How the model was trained",
        "The loss falls fast at first, while the model learns which words are frequent, and then slowly, while it "
        "learns to translate. BLEU compares whole translations with those by people and rises only when sentences come "
        "out right; the learning rate rises at first, so that early steps do no harm, and then sinks.",
        "loss&nbsp;= &minus;1/T&thinsp;Σ<sub>t</sub> log p(y<sub>t</sub> | y<sub>&lt;t</sub>, x) &nbsp;&nbsp; "
        "BLEU&nbsp;= brevity · (p<sub>1</sub>&thinsp;p<sub>2</sub>&thinsp;p<sub>3</sub>&thinsp;p<sub>4</sub>)"
        "<sup>1/4</sup>",
    ),
    "word-plus-position": Words(
        "A word is not one point but a circle of points",
        "The model adds the code of the position to the vector of the word. In the plane of one pair of features the "
        "same word then lies somewhere on a circle around its own vector: all words are moved alike, so that the place "
        "can be told from the word. The lengths of both show how much room the position takes.",
        "x<sub>p</sub>&nbsp;= √d&thinsp;E[w] + PE(p), &nbsp; |PE(p)|&nbsp;= √(d/2) for every p",
    ),
    "attention": Words(
        "Where every head looks",
        "Each image is one head of one layer for one sentence: a row is a token that asks, a column a token that is "
        "looked at, and each row sums to 1. Stripes beside the diagonal are heads that follow position rather than "
        "content; in the last block the translation looks for its source.",
        "A&nbsp;= softmax( Q&thinsp;K<sup>T</sup>&thinsp;/&thinsp;√D + bias ), &nbsp; output&nbsp;= A&thinsp;V",
    ),
    "probe": Words(
        "Why the position is not lost on the way up",
        "A linear function, fitted on some sentences, reads the position of a token from its hidden state in others. A "
        "residual connection adds what a layer computes to what it received, so that a position told at the input can "
        "pass every layer; the dashed line is the same model with these connections cut.",
        "p̂&nbsp;= w · h + b, &nbsp; w, b&nbsp;= argmin Σ (w · h + b &minus; p)<sup>2</sup> + |w|<sup>2</sup>; &nbsp; "
        "h<sub>l+1</sub>&nbsp;= h<sub>l</sub> + f(h<sub>l</sub>) &nbsp;against&nbsp; f(h<sub>l</sub>)",
    ),
}
