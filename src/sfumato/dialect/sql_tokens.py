"""Split SQL text into tokens with places, as DuckDB's lexer does, and mark places in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import NamedTuple

from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import NO_NUMBER, slips
from sfumato.errors import SqlError

# BigQuery takes texts of 1 MB, too. DuckDB's trees have hundreds of bytes for a word.
MAX_LENGTH, MAX_TOKENS = 1 << 20, 100_000
MAX_DEPTH = 1000  # as DuckDB's own limit
_MAX_SIGNS, _MAX_QUERIES = 100, 8


class Place(NamedTuple):
    """The place of a token in SQL text: offset of its first character, and the offset after its last."""

    start: int
    stop: int


class Token(NamedTuple):
    """A token of SQL text.

    Args:
        kind: "word", "name" (in quotes), "text", "code" (a text or bits in another form), "number", "sign",
            or "end", which stands once, behind the last one.
        text: as written, but for names and texts without their quotes.
        word: what keywords and signs compare with: a word in capitals, or a sign; else nothing.
        start, stop: its place.
    """

    kind: str
    text: str
    word: str
    start: int
    stop: int

    @property
    def place(self) -> Place:
        """The token's place in the SQL text."""
        return Place(self.start, self.stop)


@dataclass(frozen=True)
class Literal:
    """A literal in SQL text, as written: `kind` says whether a number, word, text, date, name or list.

    Args:
        parts: of a list, the words of each entry.
    """

    text: str
    kind: str
    place: Place
    parts: tuple[tuple[Token, ...], ...] = ()


_SPACE = r"\t\n\v\f\r \u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"
_NAME = rf"[^{_SPACE}!-/:-@\[-^`{{-~0-9][^{_SPACE}!-#%-/:-@\[-^`{{-~]*"
_WORDS = re.compile(
    rf"""
    (?: [{_SPACE}]+ | --[^\n\r]* )*+
    (?: (?P<word>    (?![eExXbB]'){_NAME} )
      | (?P<number>  (?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
      | (?P<comment> /\* )
      | (?P<text>    '[^']*+(?:''[^']*+)*+' )
      | (?P<code>    [eE]'(?:[^'\\]++|\\.|'')*+' | [xXbB]'[^']*' | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag) )
      | (?P<name>    "[^"]*+(?:""[^"]*+)*+" | `[^`]*+(?:``[^`]*+)*+` )
      | (?P<open>    [eExXbB]?' | ["`] | \$(?:[^\W\d]\w*)?\$ )
      | (?P<sign>    => | . )
      | \Z
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = tuple(_CLOSING.values())


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a SQL text, and a last one of kind "end".

    Raises:
        SqlError: a quote or comment does not end; or the text is too long, or nested too deep, for DuckDB.

    >>> [(token.kind, token.text) for token in tokenize("SUM(`my x`, bounds => 'a''b') -- rest")][:5]
    [('word', 'SUM'), ('sign', '('), ('name', 'my x'), ('sign', ','), ('word', 'bounds')]
    """
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the query is longer than {MAX_LENGTH} characters")
    if bad := re.search("[\0\ud800-\udfff]", text):
        raise refusal(
            text,
            Place(*bad.span()),
            "this character cannot stand in a query (NUL, or half of a surrogate pair)",
        )
    tokens = list(islice(scan(text), MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        raise refusal(text, tokens[-1].place, f"the query has more than {MAX_TOKENS} tokens")
    if deep := too_deep(tokens):
        raise refusal(text, deep.place, "an expression is nested too deeply")
    end = tokens[-1].stop if tokens else 0
    return [*tokens, Token("end", "", "", end, end + 1)]


def statements(text: str) -> list[str]:
    """Split a SQL text into its statements at the semicolons between tokens.

    Raises:
        SqlError: as of `tokenize`.

    >>> statements("SELECT ';'; SELECT 2;  -- the last; of two")
    ["SELECT ';'", ' SELECT 2']
    """
    found, start, filled = [], 0, False
    for token in tokenize(text):
        if token.word == ";" or token.kind == "end":
            if filled:
                found.append(text[start : len(text) if token.kind == "end" else token.start])
            start, filled = token.stop, False
        else:
            filled = True
    return found


def scan(text: str) -> Iterator[Token]:
    """Yield the tokens of a SQL text, without limits on its length or depth.

    Raises:
        SqlError: a quote or comment does not end.
    """
    at = 0
    while at < len(text):
        for found in _WORDS.finditer(text, at):
            kind, at = found.lastgroup, found.end()
            if kind is None:
                continue
            start = found.start(kind)
            if kind == "comment":  # which may hold others, and so is no word of a regular language
                at = _end_of_comment(text, start)
                break
            if kind == "open":
                raise refusal(text, Place(start, start + 1), "a quote or comment is not closed")
            yield _token(kind, text[start:at], start, at)


def too_deep(tokens: Iterable[Token]) -> Token | None:
    """Return the token at which SQL text is nested so deep that DuckDB's parser would take too long.

    Its time grows with the square of the depth of brackets and of signs before signs, and its memory with
    that of queries that begin with WITH.
    """
    depth = signs = queries = 0
    before = ""
    for token in tokens:
        word = token.word
        depth = max(0, depth + (word in _CLOSING) - (word in _CLOSERS))
        signs = signs + 1 if word in ("+", "-") else 0
        queries += word == "WITH" and before == "("
        if depth > MAX_DEPTH or signs > _MAX_SIGNS or queries > _MAX_QUERIES:
            return token
        before = word
    return None


def _token(kind: str, written: str, start: int, stop: int) -> Token:
    """Make a token of the text that the lexer matched."""
    if kind == "word":
        return Token(kind, written, written.upper(), start, stop)
    if kind == "sign":
        return Token(kind, written, written, start, stop)
    if kind in ("name", "text"):
        quote = written[0]
        return Token(kind, written[1:-1].replace(quote * 2, quote), "", start, stop)
    return Token(kind, written, "", start, stop)


def _end_of_comment(text: str, start: int) -> int:
    """Return where a block comment ends, which may have others nested in it."""
    depth, at = 0, start
    while found := _COMMENT.search(text, at):
        depth, at = depth + (1 if found[0] == "/*" else -1), found.end()
        if not depth:
            return at
    raise refusal(text, Place(len(text), len(text) + 1), "a quote or comment is not closed")


def brackets(text: str, tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of the token that closes each bracket.

    Raises:
        SqlError: one is not closed, or closes nothing.
    """
    closing: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.word in _CLOSING:
            opened.append(i)
        elif token.word in _CLOSERS:
            if not opened:
                raise refusal(text, token.place, f"this {token.word} has no opening bracket")
            if _CLOSING[tokens[opened[-1]].word] != token.word:
                break
            closing[opened.pop()] = i
    if opened:
        token = tokens[opened[-1]]
        raise refusal(text, token.place, f"a {_CLOSING[token.word]} is missing for this bracket")
    return closing


def refusal(text: str, place: Place, message: str) -> SqlError:
    """Make a SqlError that shows the line of the SQL text and marks the place of the tokens.

    Args:
        text: the whole SQL text.
        place: the place to mark.
        message: the error, and what to write instead.

    >>> print(refusal("SELECT x\\nFROM t", Place(14, 15), "t is not known"))
    t is not known
    line 2, column 6:
        FROM t
             ^
    """
    start = min(place.start, len(text))
    first = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    ends = [i for i in (text.find("\n", start), text.find("\r", start)) if i >= 0]
    last = min(ends, default=len(text))
    number = len(re.findall(r"\r\n|\r|\n", text[:first])) + 1
    left = max(first, start - 60)
    right = min(last, max(left + 100, start + 40))
    shown = "".join(c if c.isprintable() else " " for c in text[left:right])
    before, after = ("..." if left > first else ""), ("..." if right < last else "")
    marks = "^" * max(1, min(place.stop, right) - start)
    pad = " " * (len(before) + start - left)
    where = f"line {number}, column {start - first + 1}"
    return SqlError(
        f"{message}\n{where}:\n    {before}{shown}{after}\n    {pad}{marks}",
        (start, max(start, min(place.stop, len(text)))),
    )


def positive(text: str, value: Literal, what: str) -> int:
    """Return a literal as an integer of at least 1; refuse `what` at the literal's place otherwise."""
    if value.kind != "number" or not value.text.isdigit() or not 0 < int(value.text) < 2**63:
        raise refusal(text, value.place, f"{what} must be a whole number of at least 1")
    return int(value.text)


class Cursor:
    """A cursor over the tokens of a SQL text, with the next token and matching brackets.

    `written` is the text, blank where words were cut out.

    Args:
        text: SQL.
    Raises:
        SqlError: a quote, a comment or a bracket does not end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.written = text
        self.tokens: list[Token] = tokenize(text)
        while len(self.tokens) > 1 and self.tokens[-2].word == ";":
            del self.tokens[-2]
            stop = self.tokens[-2].stop if len(self.tokens) > 1 else 0
            self.tokens[-1] = Token("end", "", "", stop, stop + 1)
        self.closing: dict[int, int] = brackets(text, self.tokens)
        self.at: int = 0

    def part(self, start: int, stop: int) -> Cursor:
        """Return a cursor over some of the tokens, which keep their places in the text."""
        part = object.__new__(Cursor)
        end = self.tokens[stop]
        part.text, part.written, part.at = self.text, self.written, 0
        part.tokens = [*self.tokens[start:stop], Token("end", "", "", end.start, end.stop)]
        part.closing = {i - start: self.closing[i] - start for i in range(start, stop) if i in self.closing}
        return part

    def without(self, spans: Iterable[range]) -> Cursor:
        """Return a cursor without some tokens; `written` is blank where they were."""
        cut, written = {i for span in spans for i in span}, list(self.written)
        for i in cut:
            start, stop = self.tokens[i].place
            written[start:stop] = " " * (stop - start)
        part = object.__new__(Cursor)
        part.text, part.written, part.at = self.text, "".join(written), 0
        part.tokens = [token for i, token in enumerate(self.tokens) if i not in cut]
        part.closing = brackets(self.text, part.tokens)
        return part

    @property
    def token(self) -> Token:
        """The next token; of kind "end" where there is none."""
        return self.tokens[self.at]

    @property
    def before(self) -> Token:
        """The token that was taken last."""
        return self.tokens[self.at - 1]

    @property
    def after(self) -> Token:
        """The token behind the next one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def take(self, word: str) -> bool:
        """Move the cursor past the next token, if that is this keyword or sign."""
        found = self.token.word == word
        self.at += found
        return found

    def outer(self, span: range) -> Iterator[int]:
        """Yield the indices of the tokens of a span that stand in no brackets."""
        i = span.start
        while i < span.stop:
            yield i
            i = self.closing.get(i, i) + 1

    def literal(self, kind: str) -> Literal:
        """Take the next token as a literal."""
        token = self.token
        self.at += token.kind != "end"
        return Literal(token.text, kind, token.place)

    def number(self, what: str) -> Literal:
        """Take the next tokens as a number with an optional sign.

        Raises:
            SqlError: `what` is none, or out of all range.
        """
        start = self.token
        sign = start.text if start.word in ("-", "+") else ""
        self.at += bool(sign)
        last = self.token
        if last.kind != "number" or "_" in last.text:
            raise self.refuse(f"{what} {NO_NUMBER}", start if last.kind == "end" else last)
        self.at += 1
        text, place = sign + last.text, Place(start.start, last.stop)
        if self.token.word == "E" and self.token.start == last.stop:
            raise refusal(self.text, Place(start.start, self.token.stop), f"{what} {NO_NUMBER}")
        exponent = re.search(r"e([+-]?\d+)$", text, re.IGNORECASE)
        if len(text) > 1000 or (exponent and (len(exponent[1]) > 5 or abs(int(exponent[1])) > 5000)):
            raise refusal(self.text, place, f"{what} is out of range")
        Fraction(text)
        return Literal(text, "number", place)

    def refuse(self, message: str, token: Token | None = None) -> SqlError:
        """Make a SqlError that marks a token, or the next one."""
        return refusal(self.text, (token or self.token).place, message)


_MAX_SLIP = 2000
_GUESSED = re.compile(r"([;.] ([Dd]id you mean|[Ww]rite) .*|\. You might need .*)$")


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.IGNORECASE), told) for pattern, told in slips().items()]


def with_slip(why: str, text: str) -> str:
    """Append to a parser's reason how another language's spelling is written in SQL, where the text has one.

    Args:
        why: the reason, perhaps with lines that show the place.
        text: the SQL text as written.
    """
    told = slip(text)
    if not told:
        return why
    first, newline, rest = why.partition("\n")
    return f"{_GUESSED.sub('', first)}; {told}{newline}{rest}"


def slip(text: str) -> str:
    """Return how another language's operator or quote is written in SQL, where some tokens have one; else "".

    >>> slip("town == 'A' & age > 25")
    'write AND for &, OR for |'
    >>> slip("town = 'R & D'")
    ''
    """
    pieces = []
    with suppress(SqlError):  # of a quote that does not end
        for token in scan(text[:_MAX_SLIP]):
            pieces.append({"text": "''", "name": '""'}.get(token.kind, token.text))
    words = " ".join(pieces)
    return next((told for pattern, told in _patterns() if pattern.search(words)), "")
