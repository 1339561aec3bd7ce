"""Take credentials out of text that is about to leave a tool.

Error messages of HTTP clients quote whole URLs, keys included. `scrub` removes
what looks like a credential by its place (the value of a field, parameter or
header with such a name, the password of a URL, the token of an authorization)
or by its shape (the tokens of well-known services).

It works on lowered UTF-8, where no pattern needs to fold case, with patterns
that begin with a fixed word, which is searched for at the speed of memory. A
repetition is bounded or gives nothing back, and what has been taken is not
looked at again: the time grows with the length of the text, whoever wrote it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache

MASK = "[redacted]"

Span = tuple[int, int]
Judge = Callable[[bytes, bytes, "re.Match[bytes]"], "Span | None"]

_QUOTE = rb"\\{0,7}+[\"']"  # with the backslashes of JSON inside JSON
_BETWEEN = rb"(?P<quote>" + _QUOTE + rb")?+\s{0,5}+(?P<mark>=>|[:=])\s{0,5}+"  # a name and its value

# A word that names a credential, what follows of the name, and what stands before the value
_FIELDS = tuple(
    word + rb"[\w.\[\]%-]{0,40}+" + _BETWEEN
    for word in (b"key", b"token", b"secret", b"pass", b"pwd", b"auth", b"sig", b"code", b"credential")
)
_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_.[]%-"
_INDEX = rb"(?:\[\w{0,20}\]|%5b%5d)?\Z"
_STRONG = (
    rb"(?:(?:api|secret|private|access|account)[_-]?key|(?:access|auth|refresh|session)[_-]?token"
    rb"|secret|passw(?:or)?d|passphrase)"
)
_ALWAYS = _STRONG + _INDEX
_IN_CODE = rb"(?:" + _STRONG + rb"|token|pwd)" + _INDEX  # where it is no prose: a bare `token:` is said by parsers
_IN_URL = (
    rb"[?&;#](?:(?:key|auth|sig|code|pass)"
    + _INDEX
    + rb"|.{0,80}(?:"
    + _STRONG
    + rb"|token(?!s)|pwd|signature|credential))"
)
_OPENED = rb"b?(?P<quote>" + _QUOTE + rb")"
_PARAMETER = rb"(?P<secret>[^&;\s#'\"<>]++)"
_BARE = rb"(?:(?:bearer|basic|token|digest)\s{1,5}+)?+(?P<secret>(?:[^\s'\",;&)\\]|\\(?![nr\"'\\]))++)"
_LINE = rb"(?P<secret>(?:[^\r\n\\]|\\(?![rn]))++)"
# What a sentence about a field goes on with: "password: is required", "api_key: Field required"
_PROSE = (
    rb"(?:is|are|was|must|should|may|can|cannot|has|have|field|header|input|value|string|this|the|an?|no|not|none|null"
    rb"|required|missing|invalid|empty|unset|expected|denied|failed)\b"
)
_BRACKETS = {b"[": rb"[\[\]]", b"{": rb"[{}]"}
_FAR = 1_000

# Authorization: …, Cookie: …; and ("authorization", …) in a list of headers
_HEADERS = tuple(
    word + rb"(?:" + _BETWEEN + rb"|(?P<pair>" + _QUOTE + rb"\s{0,5}+,\s{0,5}+))"
    for word in (b"authorization", b"cookie")
)
_PAIR = (b"('", b'("', b"(b'", b'(b"', b"['", b'["')
_WITH_SCHEME = rb"(?:bearer|basic)\s{1,5}+(?P<secret>[^\s'\",;&)\\]++)"

# A scheme and its token outside of a header, unless that reads like a word: "the bearer of news", "basic auth"
_SCHEMES = tuple(
    word + rb"(?<![a-z0-9_]" + word + rb")\s{1,5}+(?P<secret>[a-z0-9._~+/=-]{3,}+)" for word in (b"bearer", b"basic")
)
_WORDS = rb"(?:[A-Za-z][a-z]{0,20}+|[A-Z]{2,5}+)(?:[/-][a-z]{1,20}+){0,2}\.?"

# --password VALUE, and ['--password', 'VALUE'] of an argument list
_OPTIONS = (rb"--(?P<name>[a-z0-9_-]{1,40}+)(?:(?P<listed>" + _QUOTE + rb"\s{0,5}+,\s{0,5}+)|\s{1,5}+)",)

# A value that pydantic quotes two lines below the name of its field
_QUOTED = (rb"input_value=",)

# The body of a private key
_KEYS = (rb"-----begin [a-z ]{0,30}private key(?: block)?-----",)

# user:password@ behind scheme://, unless it is host:port
_USERS = (rb"://[^\s/:@\"'<>]{0,200}+:(?!\d{1,5}+(?:[/?#\s]|\Z))(?P<rest>(?:[^\s\"'<>:]|:(?!//)){0,1000}+)",)

# What stands in a URL by itself: a token before the @, the last words of a webhook
_URLS = (
    rb"https?://(?P<secret>[^\s/:@\"'<>?#]{16,200}+)@",
    rb"hooks\.slack\.com/[a-z]{1,20}+/(?P<secret>[a-z0-9_/-]++)",
    rb"discord(?:app)?\.com/api/(?:v\d{1,2}+/)?webhooks/\d{1,30}+/(?P<secret>[a-z0-9_-]++)",
    rb"webhook\.office\.com/[a-z0-9]{1,20}+/(?P<secret>[a-z0-9_@/-]++)",
    rb"/bot\d{5,20}+:(?P<secret>[a-z0-9_-]{20,}+)",
)

# sk-…, ghp_…, xoxb-…, AKIA…, a JSON web token
_SHAPES = (
    *(word + rb"(?<![a-z0-9]..)[_-][a-z0-9_-]{16,}+" for word in (b"sk", b"pk", b"rk")),
    *(word + rb"(?<![a-z0-9]....)[a-z0-9_]{16,}+" for word in (b"ghp_", b"gho_", b"ghs_")),
    *(word + rb"(?<![a-z0-9]....)[a-z0-9]{16}" for word in (b"akia", b"asia")),
    *(word + rb"(?<![a-z0-9]...)[a-z0-9_]{20,}+" for word in (b"hf_", b"r8_")),
    *(word + rb"(?<![a-z0-9]....)[a-z0-9_-]{30,}+" for word in (b"gsk_", b"npm_", b"xai-")),
    rb"nvapi-[a-z0-9_-]{16,}+",
    rb"ya29\.[a-z0-9_-]{16,}+",
    rb"sg\.(?<![a-z0-9]...)[a-z0-9_-]{16,}+\.[a-z0-9_-]{16,}+",
    rb"pypi-ag[a-z0-9_-]{16,}+",
    *(b"xox" + letter + rb"-[a-z0-9_-]{16,}+" for letter in (b"a", b"b", b"e", b"p", b"r", b"s")),
    rb"github_pat_[a-z0-9_]{16,}+",
    rb"glpat-[a-z0-9_-]{16,}+",
    rb"aiza(?<![a-z0-9]....)[a-z0-9_-]{30,}+",
    rb"eyj(?<![a-z0-9]...)[a-z0-9_-]{8,}+(?:\.[a-z0-9_-]{8,}+\.[a-z0-9_-]*+|(?P<none>))",
)


@lru_cache(maxsize=128)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    # On first use: compiling costs as much as importing a module, and most programs start without an error.
    return re.compile(pattern)


def scrub(text: str) -> str:
    """Replace what looks like a credential by `[redacted]`.

    Args:
        text: Any text, for example the message of an exception.

    Returns:
        The text with each credential replaced; the rest unchanged.

    Since 0.1.
    """
    raw = text.encode("utf-8", "surrogatepass")
    low = raw.lower()  # of ASCII letters only: a place in one is the same place in the other
    spans: list[Span] = []
    for patterns, judge in _KINDS:
        for pattern in patterns:
            _collect(raw, low, pattern, judge, spans)
    if not spans:
        return text
    pieces: list[bytes] = []
    at = 0
    for start, end in sorted(spans):
        if start >= at:
            pieces += (raw[at:start], MASK.encode())
        at = max(at, end)
    return b"".join((*pieces, raw[at:])).decode("utf-8", "surrogatepass")


def _collect(raw: bytes, low: bytes, pattern: bytes, judge: Judge, spans: list[Span]) -> None:
    done = 0
    for found in _compiled(pattern).finditer(low):
        if found.start() >= done and (span := judge(raw, low, found)) is not None:
            done = span[1]
            spans.append(span)


def _field(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """The value of a field or parameter."""
    start, end, by_equals = found.start(), found.end(), found["mark"] != b":"
    left = low[max(start - 40, 0) : start]
    before = left.rstrip(_NAME)
    name = left[len(before) :] + low[start : found.start("quote" if found["quote"] else "mark")].rstrip()
    if by_equals and _compiled(_IN_URL).match(before[-1:] + name):
        return _taken(_PARAMETER, low, end)
    if by_equals or found["quote"]:
        tells = _compiled(_IN_CODE).search(name)
    else:
        tells = _compiled(_ALWAYS).search(name) and not _compiled(_PROSE).match(low, end)
    return _value(low, end) if tells else None


def _value(low: bytes, start: int) -> Span | None:
    """A value: quoted to its quote, an array or object to its end, else up to where one would go on."""
    opened = _compiled(_OPENED).match(low, start)
    if opened is not None:
        return _quoted(low, opened.end(), opened["quote"])
    opening = low[start : start + 1]
    if opening in _BRACKETS:
        depth = 0
        for bracket in _compiled(_BRACKETS[opening]).finditer(low, start, start + _FAR):
            depth += 1 if bracket[0] == opening else -1
            if depth == 0:
                return start, bracket.end()
    return _taken(_BARE, low, start)


def _quoted(low: bytes, start: int, quote: bytes) -> Span | None:
    """What stands between quotes; where they are not closed, the rest of the line."""
    closing = _compiled(rb"(?<!\\)" + re.escape(quote) + rb"|[\r\n]").search(low, start)
    end = closing.start() if closing else len(low)
    return (start, end) if end > start else None


def _taken(pattern: bytes, low: bytes, start: int, end: int = sys.maxsize) -> Span | None:
    found = _compiled(pattern).match(low, start, end)
    return found.span("secret") if found else None


def _header(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """What a header carries; of a Bearer or Basic authorization the scheme stays."""
    start, at = found.span()
    before = low[max(start - 20, 0) : start].rstrip(_NAME)
    if found["pair"] and not before.endswith(_PAIR):
        return None  # one of the names in a list
    if found["mark"] == b":" and not found["quote"] and _compiled(_PROSE).match(low, at):
        return None
    quote = before[-1:] if before[-1:] in (b'"', b"'") and found["mark"] and not found["quote"] else b""
    opened = _compiled(_OPENED).match(low, at)
    if opened is not None:
        at, quote = opened.end(), opened["quote"]
    with_scheme = _taken(_WITH_SCHEME, low, at)
    if with_scheme is not None:
        return with_scheme
    whole = _quoted(low, at, quote) if quote else (at, len(low))
    return _taken(_LINE, low, at, whole[1]) if whole else None


def _scheme(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    start, end = found.span("secret")
    return None if _compiled(_WORDS).fullmatch(raw, start, end) else (start, end)


def _option(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """The value of a command's option; where no list and no quote shows that it is one, not a word of prose."""
    name, start = found["name"], found.end()
    if not _compiled(_IN_CODE).search(name):
        return None
    opened = _compiled(_OPENED).match(low, start)
    if opened is not None:
        return _quoted(low, opened.end(), opened["quote"])
    span = None if found["listed"] or low[start : start + 1] == b"-" else _taken(_BARE, low, start)
    if span is None or _compiled(_WORDS).fullmatch(raw, *span):
        return None
    placeholder = low[slice(*span)].rstrip(b"])").replace(b"_", b"-")  # --api-key API_KEY of a usage text
    return None if placeholder == name.replace(b"_", b"-") else span


def _input(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """What pydantic quotes of a field, up to where it names its type."""
    start = found.end()
    rule = low.rfind(b"\n", max(start - 500, 0), start)
    name = low[max(rule - 200, 0) : max(rule, 0)].rpartition(b"\n")[2].strip()
    if not _compiled(_IN_CODE).search(name):
        return None
    end = low.find(b", input_type=", start, start + _FAR)
    return (start, end) if end > start else None


def _key(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """From the first line of a private key to its last, or to the end of what has been cut."""
    start, end = found.end(), low.find(b"-----end", found.end())
    end = end if end >= 0 else len(low)
    return (start, end) if end > start else None


def _secret(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    return found.span("secret")


def _password(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    """The password of a URL; it may hold an @ and, where no host would come before, a slash."""
    start, end = found.span("rest")
    slash = low.find(b"/", start, end)
    at = low.rfind(b"@", start, slash if slash >= 0 else end)
    if at < 0:
        at = low.find(b"@", start, end)
    return (start, at) if at > start else None


def _shape(raw: bytes, low: bytes, found: re.Match[bytes]) -> Span | None:
    return None if "none" in found.re.groupindex and found["none"] is not None else found.span()


_KINDS: tuple[tuple[tuple[bytes, ...], Judge], ...] = (
    (_FIELDS, _field),
    (_HEADERS, _header),
    (_SCHEMES, _scheme),
    (_OPTIONS, _option),
    (_QUOTED, _input),
    (_KEYS, _key),
    (_URLS, _secret),
    (_USERS, _password),
    (_SHAPES, _shape),
)
