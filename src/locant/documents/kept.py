"""Parts of a text that its translation has as well: one table of their families.

Some hold in any text: addresses, numbers with their signs, emoji, mentions, and what nobody writes but to have it
filled in, as ``{{name}}``. Others hold in messages of programs alone, where ``:count`` and ``%s`` are no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_BLANK = " \u00a0\u202f"
_CURRENCY = "$€£¥¢\u20a0-\u20cf"
_VERSION = (
    r"(?<!\w)(?:[vV]\d++(?:\.\d++)*+|\d++(?:\.\d++)++(?=[-+.~]?[A-Za-z]))"
    r"(?:\.[xX]|[-+.~]?(?i:alpha|beta|rc|dev|pre|post|preview|snapshot|nightly|final|release|a|b)(?:[.-]?\d++)?)?+(?!\w)"
    r"|(?<!\w)\d++\.[xX](?!\w)"
)
_FRACTION = "[¼-¾⅐-⅞]"
_NUMBER = (
    rf"(?:(?<![^\s(\[{{\"'“„«=<>/])[-\u2212+±])?(?:(?<!\w)#|[№§{_CURRENCY}][{_BLANK}]?-?)?"
    rf"(?:{_VERSION}|\d++(?:[.,:/'’\u00a0\u202f]\d++)*+{_FRACTION}?|{_FRACTION})"  # noqa: RUF001
    rf"(?:[{_BLANK}]?(?:%(?![\w%({{])|(?:°[CFK]?|[‰{_CURRENCY}])(?!\w)))?"
)
# A moment as ISO 8601 and logs write it, and a UUID.
_IDENTIFIER = (
    r"(?<![\w-])(?:\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[-+]\d\d:?\d\d)?"
    r"|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})(?![\w-])"
)
_CONVERSION = (
    r"(?:\d+[$:]|\[\d+\])?(?:\([^()]{1,80}\)|<\w{1,80}>)?[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlLzjtq])?"
    r"(?:[dsiu@]|<PRI\w+>|(?<=[^%])[oxXeEfFgGaAcCpnS]|[oxXeEfFgGaAcCpnSvqTtbUw](?![A-Za-z]))"
)
# Arrows, notes, stars, emoji and what belongs to them: no model translates them, and few have them in the vocabulary.
_SIGN = "(?:[©®\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff][\u200d\ufe0e\ufe0f\u20e3]*)++"
_FAMILIES = (
    # name, where it holds, pattern; of two that begin at the same place the first holds
    ("address", "prose", r"(?i:(?:https?|ftps?)://|www\.)[^\s<>\"“”«»„‚‘`|\\]++"),  # noqa: RUF001
    ("mail", "prose", r"(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}(?:\.[\w-]{1,63})+"),
    (
        "tag",
        "messages",
        r"\[/?(?:b|i|u|s|url|img|quote|code|color|size|font)(?:=[^\s\[\]]*+)?\]"
        r"|</?[A-Za-z][\w:-]{0,60}+(?:\s[^<>]*+)?/?>|</?\d{1,3} ?/?>",
    ),
    ("entity", "messages", r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});"),
    ("template", "prose", r"<%[^%]*+%>|<\?(?:[^?<]|\?(?!>)|<(?!\?))*+\?>"),
    ("braces", "prose", r"[$%#]?\{"),
    ("call", "prose", r"\$t\([^()]*\)"),
    ("variable", "prose", r"(?<![\w$])\$[A-Za-z_]\w*+\$?"),
    (
        "percent name",
        "prose",
        r"(?<![\w%])%[A-Za-z_]\w++%(?![\w%(])|(?<!\w)(?P<signs>%%|##|@@)[A-Za-z]\w*+(?P=signs)(?!\w)",
    ),
    ("mention", "prose", r"(?<![\w@])@(?:(?:\.\w+)?:)?[A-Za-z_]\w*+(?:[.@/:-]\w++)*+"),
    ("hashtag", "prose", r"(?<![\w#&])#(?=\d*[^\W\d])\w++"),
    ("emoji name", "prose", r"(?<![\w:]):[A-Za-z+-][\w+-]*+:(?![\w:])"),
    ("underscores", "prose", r"(?<!\w)__[A-Za-z0-9]++(?:_[A-Za-z0-9]++)*+__(?!\w)"),
    (
        "printf",
        "printf",
        rf"%%|%\|[^|\s%]{{1,20}}\||(?<!\d)%{_CONVERSION}|%(?:{_CONVERSION}|[A-Za-z]| \d*(?:\.\d+)?l*[diefg])(?!\w)",
    ),
    ("tilde", "tildes", r"~(?:[-+]?\d*|'.)(?:,(?:[-+]?\d+|'.)?)*+[:@]*[A-Za-z%~&$?*|<>{}()\[\];^]"),
    ("position", "positions", r"%L?(?:\d{1,2}(?!\w|\$|\.\d)(?:%(?![\w(]))?|n(?!\w))"),
    ("colon name", "messages", r"(?<![\w:]):[A-Za-z_]\w*+(?!:)"),
    ("accelerator", "messages", r"(?:(?<![\w&])[_&](?=[^\W\d_])|(?<=[A-Za-z])[_&](?=[a-z]))(?!\w{1,40}[_;])"),
    ("identifier", "prose", _IDENTIFIER),
    ("number", "prose", _NUMBER),
    ("sign", "prose", _SIGN),
)
_MAYBE = re.compile(rf"[@#$%{{\d]|<\?|__|:\w|://|{_FRACTION}|(?i:www\.)|{_SIGN}")
_FLAGS = {
    "printf": "c objc python java-printf php go sh-printf awk lua object-pascal modula2 d perl tcl elisp ruby "
    "javascript gcc-internal gfc-internal boost librep",
    "braces": "c++ java csharp python-brace perl-brace rust javascript smalltalk",
    "positions": "qt qt-plural kde kde-kuit ycp boost smalltalk",
    "tildes": "scheme lisp",
}
PROSE = frozenset({"prose"})
"""What holds in any text."""
_MESSAGES = PROSE | {"messages", *_FLAGS}

_ENDINGS = ".,;:!?'\"’)]}*_~。，、！？）"  # noqa: RUF001
_BRACE = re.compile(r"[{}]")
_NAME = re.compile(r"\{\w[\w.]*+\}")
_ARGUMENT = re.compile(
    r"\{(?:[^{}\s]*|\s*+[\w.$@-]++\s*+(?:,\s*+(?:-?\d|number|date|time|spellout|ordinal|duration|plural|select|choice|list)"
    r"[^{}]*|\||(?<=\d)[:!][^{}]*)?+)\}"
)


class Found(NamedTuple):
    """A part of a text that its translation has as well.

    Attributes:
        start: Offset of its first character.
        end: Offset behind the last one.
        kind: The name of its family.
    """

    start: int
    end: int
    kind: str


def message_families(flags: Iterable[str] = ()) -> frozenset[str]:
    """Return which families hold in a message.

    Args:
        flags: Of a catalogue, which say which format strings it has: ``c-format``, ``no-python-format``. Without any
            all families hold.
    """
    formats = {flag.removesuffix("-format") for flag in flags if flag.endswith("-format")}
    wanted = {group for group, names in _FLAGS.items() if formats & set(names.split())}
    refused = {group for group, names in _FLAGS.items() if formats & {f"no-{name}" for name in names.split()}}
    if wanted == {"braces"}:
        wanted |= {"printf"}  # what braces are filled in may go through printf too
    return _MESSAGES - (refused - wanted) - (_FLAGS.keys() - wanted if wanted else {"tildes"})


@lru_cache(maxsize=32)
def _pattern(held: frozenset[str]) -> re.Pattern[str]:
    families = (f"(?P<{name.replace(' ', '_')}>{pattern})" for name, where, pattern in _FAMILIES if where in held)
    return re.compile("|".join(families))


def find_kept(text: str, held: frozenset[str] = PROSE) -> list[Found]:
    """Return what of a text its translation has as well, in the order of the text.

    Punctuation behind an address is not part of it. Digits that are part of a word, as in ``3rd`` or ``B2B``, are no
    number; currency, per cent, degree, a minus and the rest of a version are part of it.

    Args:
        text: Any text.
        held: Where the families hold that are looked for: :data:`PROSE`, or :func:`message_families`.
    """
    # Most sentences have none, which is seen in a tenth of the time.
    if held == PROSE and not _MAYBE.search(text):
        return []
    found: list[Found] = []
    pattern, braces, place = _pattern(held), None, 0
    while match := pattern.search(text, place):
        kind, (start, end) = str(match.lastgroup).replace("_", " "), match.span()
        place = end
        if kind == "address":
            has_bracket = "(" in match[0]
            while text[end - 1] in _ENDINGS and not (text[end - 1] == ")" and has_bracket):
                end -= 1
        elif kind == "mail":
            end = start + len(match[0].rstrip(_ENDINGS + "-"))
        elif kind == "number":
            if (match[0][0].isdecimal() and _is_cased(text[start - 1 : start])) or _is_cased(text[end : end + 1]):
                continue
        elif kind == "braces":
            braces = _braces(text) if braces is None else braces
            opened = end - 1
            end = braces.get(opened, 0)
            if not end or not (start < opened or _is_placeholder(text, opened, braces, held)):
                continue
            place = end
        found.append(Found(start, end, kind))
    return found


def _is_cased(character: str) -> bool:
    """Whether a character is a letter that words are written with from end to end, unlike those of Chinese."""
    return character.isalpha() and character.lower() != character.upper()


def _braces(text: str) -> dict[int, int]:
    """Return where each brace is closed; those within others that ICU's apostrophes quote are none."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    quoted = 0  # the end of what is quoted
    for brace in _BRACE.finditer(text):
        at = brace.start()
        if at < quoted:
            continue
        if opened and at > quoted and text[at - 1] == "'" and (quote := text.find("'", at)) > 0:
            quoted = quote + 1
        elif brace[0] == "{":
            opened.append(at)
        elif opened:
            ends[opened.pop()] = at + 1
    return ends


def _is_placeholder(text: str, start: int, braces: dict[int, int], held: frozenset[str]) -> bool:
    """Whether braces without a sign before them are filled in, and not around words."""
    end = braces[start]
    if braces.get(start + 1) == end - 1 or (text[start + 1] == text[end - 2] == "%" and end - start > 3):
        return True
    if "braces" not in held:
        return bool(_NAME.match(text, start))
    inner = text.find("{", start + 1, end)
    return inner > 0 or bool(_ARGUMENT.match(text, start))
