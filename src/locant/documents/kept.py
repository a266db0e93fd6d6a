"""Parts of a text that its translation has as well: one table of their families.

Some hold in any text: addresses, numbers with their signs, emoji, mentions, and what nobody writes but to have it
filled in, as ``{{name}}``. Others hold in messages of programs alone, where ``:count`` and ``%s`` are no words.
"""

from __future__ import annotations

import re
from functools import cache

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
    # name, where it holds, pattern; of two that begin at the same place the first counts
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
        "messages",
        rf"%%|%\|[^|\s%]{{1,20}}\||(?<!\d)%{_CONVERSION}|%(?:{_CONVERSION}|[A-Za-z]| \d*(?:\.\d+)?l*[diefg])(?!\w)",
    ),
    ("position", "messages", r"%L?(?:\d{1,2}(?!\w|\$|\.\d)(?:%(?![\w(]))?|n(?!\w))"),
    ("colon name", "messages", r"(?<![\w:]):[A-Za-z_]\w*+(?!:)"),
    ("accelerator", "messages", r"(?:(?<![\w&])[_&](?=[^\W\d_])|(?<=[A-Za-z])[_&](?=[a-z]))(?!\w{1,40}[_;])"),
    ("identifier", "prose", _IDENTIFIER),
    ("number", "prose", _NUMBER),
    ("sign", "prose", _SIGN),
)
_MAYBE = re.compile(rf"[@#$%{{\d]|<\?|__|:\w|://|{_FRACTION}|(?i:www\.)|{_SIGN}")
IN_MESSAGES = frozenset({"argument", *(name for name, where, _ in _FAMILIES if where == "messages")})
"""Names of the families that are kept in messages of programs alone."""

_ENDINGS = ".,;:!?'\"’)]}*_~。，、！？）"  # noqa: RUF001
_BRACE = re.compile(r"[{}]")
_NAME = re.compile(r"\{\w[\w.]*+\}")
_ARGUMENT = re.compile(
    r"\{(?:[^{}\s]*|\s*+[\w.$@-]++\s*+(?:,\s*+(?:-?\d|number|date|time|spellout|ordinal|duration|plural|select|choice|list)"
    r"[^{}]*|\||(?<=\d)[:!][^{}]*)?+)\}"
)


Found = tuple[int, int, str]
"""A part of a text: offset of its first character, offset behind the last one, and the name of its family."""


@cache
def _pattern(*, in_message: bool) -> re.Pattern[str]:
    families = [
        f"(?P<{name.replace(' ', '_')}>{pattern})"
        for name, where, pattern in _FAMILIES
        if in_message or where == "prose"
    ]
    return re.compile("|".join(families))


def find_kept(text: str, *, in_message: bool = False) -> list[Found]:
    """Return what of a text its translation has as well, in the order of the text.

    Punctuation behind an address is not part of it. Digits that are part of a word, as in ``3rd`` or ``B2B``, are no
    number; currency, per cent, degree, a minus and the rest of a version are part of it.

    Args:
        text: Any text.
        in_message: Whether it is a message of a program, which has placeholders that other texts do not have.
    """
    # Most sentences have none, which is seen in a tenth of the time.
    if not in_message and not _MAYBE.search(text):
        return []
    found: list[Found] = []
    pattern, braces, place = _pattern(in_message=in_message), None, 0
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
            if not end:
                continue
            if not (start < opened or _is_variable(text, opened, braces)):
                kind = "argument"
                if not (in_message and _is_argument(text, opened, end)):
                    continue
            place = end
        found.append((start, end, kind))
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


def _is_variable(text: str, start: int, braces: dict[int, int]) -> bool:
    """Whether braces without a sign before them are filled in, in any text."""
    end = braces[start]
    is_double = braces.get(start + 1) == end - 1
    is_command = text[start + 1] == text[end - 2] == "%" and end - start > 3
    return is_double or is_command or bool(_NAME.match(text, start))


def _is_argument(text: str, start: int, end: int) -> bool:
    """Whether braces are filled in as messages have it: they hold others, or no more than a name and its format."""
    return text.find("{", start + 1, end) > 0 or bool(_ARGUMENT.match(text, start))
