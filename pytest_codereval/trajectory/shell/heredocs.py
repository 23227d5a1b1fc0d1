"""A shell text is made simpler before it is parsed, so that the grammar only sees what it handles well.

Here-documents and here-strings become plain redirections from a marker word; in the text that is parsed, comments
are blank and line ends that end a command are semicolons.
"""

from __future__ import annotations

import dataclasses
import re

_STOPS = {
    "code": re.compile(r"[\\'\"`#$()<\n]"),
    '"': re.compile(r"[\\\"`$]"),
    "{": re.compile(r"[\\'\"`$}]"),
    "((": re.compile(r"[\\'\"`$()]"),
}
_CODE = ("code", "(", "`", "array")
LONGEST = 200_000
"""Characters of code that are read; here-documents and plain text in quotes do not count."""
MOST_TEXT = 4_000_000
"""Characters of a text, with here-documents and all."""
_STEP_IN_QUOTES = 4
"""Characters that a character with a meaning in quotes counts as."""
_BLANK_WORD = re.compile(
    r"(?:^|[\n;&|({!]|\b(?:then|do|else|elif|if|while|until)[ \t])[ \t]*(time(?:[ \t]+-p)?)"
    r"(?=[ \t]+(?:[{(!]|(?:if|for|while|until|case)\s))"
)
"""`time` before something else than a simple command."""
_TAIL = 40
_OPERATOR = re.compile(r"<<(?P<tabs>-?)(?P<space>[ \t]*)(?P<word>(?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_OPEN = re.compile(
    r"(?:^|[\s;&|({)])$|(?:^|[\s;&|({])(?:do|then|else|elif|if|while|until|in|!|time|case\s\S+)$|function\s+\S+$"
)
"""The end of a text behind which a line end does not end a command."""
_FILLED = re.compile(r"\S")
_HERE_STRING = re.compile(r"<<<[ \t]*")


class TooLong(Exception):
    """A text has too much code."""


@dataclasses.dataclass(frozen=True)
class HereDocument:
    """The body of a here-document; `expands` when its delimiter has no quotes."""

    body: str
    expands: bool


@dataclasses.dataclass(frozen=True)
class Extracted:
    """A text without here-documents. `operators` are the removed operators as written, `documents` their bodies, None
    for a here-string, whose word stays in the text right behind its marker. `grammar` is the text that is parsed, of
    which each part has as many bytes as the same part of `text`.
    """

    text: str
    grammar: str
    prefix: str = "__here_"
    operators: tuple[str, ...] = ()
    documents: tuple[HereDocument | None, ...] = ()

    def marker(self, number: int) -> str:
        """Return the word that stands for operator `number`."""
        return f"{self.prefix}{number}__"

    def number(self, word: str) -> int | None:
        """Return the number of the operator whose marker `word` begins with, or None."""
        found = re.match(re.escape(self.prefix) + r"(\d+)__", word) if self.operators else None
        return int(found[1]) if found else None

    def restore(self, text: str, *, bodies: bool = False) -> str:
        """Return a piece of the text with the operators as they were written, and where asked with the bodies."""
        if not self.operators:
            return text
        seen: list[int] = []

        def operator(found: re.Match[str]) -> str:
            seen.append(int(found[1]))
            return self.operators[seen[-1]]

        text = re.sub("<" + re.escape(self.prefix) + r"(\d+)__", operator, text)
        documents = [self.documents[number] for number in seen] if bodies else []
        return text + "".join(f"\n{document.body}" for document in documents if document is not None)


def extract(text: str) -> Extracted:
    """Take the here-documents out of `text`. Raises TooLong."""
    prefix = "__here_"
    while prefix in text:
        prefix += "_"
    return _Scanner(text, prefix).run()


@dataclasses.dataclass
class _Pending:
    number: int
    delimiter: str
    tabs: bool
    expands: bool


class _Scanner:
    def __init__(self, text: str, prefix: str) -> None:
        self._text = text
        self._prefix = prefix
        self._at = 0
        self._out: list[str] = []
        self._grammar: list[str] = []
        self._tail = ""
        self._contexts = ["code"]
        self._pending: list[_Pending] = []
        self._operators: list[str] = []
        self._documents: list[HereDocument | None] = []
        self._cost = 0
        self._filled = 0

    def run(self) -> Extracted:
        text = self._text
        while self._at < len(text):
            found = _STOPS[self._rules()].search(text, self._at)
            stop = found.start() if found else len(text)
            in_quotes = self._contexts[-1] == '"'
            self._cost += (0 if in_quotes else stop - self._at) + (_STEP_IN_QUOTES if in_quotes else 1)
            if self._cost > LONGEST:
                raise TooLong
            self._take(stop - self._at)
            if found:
                self._step(found[0])
        return Extracted(
            "".join(self._out),
            _without_time("".join(self._grammar)),
            self._prefix,
            tuple(self._operators),
            tuple(self._documents),
        )

    def _rules(self) -> str:
        context = self._contexts[-1]
        return "code" if context in _CODE else "((" if context == "(((" else context

    def _take(self, length: int) -> None:
        self._put(self._text[self._at : self._at + length])
        self._at += length

    def _put(self, text: str, grammar: str | None = None) -> None:
        grammar = text if grammar is None else grammar
        self._out.append(text)
        self._grammar.append(grammar)
        self._tail = (self._tail + grammar[-_TAIL:])[-_TAIL:]

    def _step(self, character: str) -> None:
        context = self._contexts[-1]
        if character == "\\" and context in _CODE and self._text[self._at + 1 : self._at + 2] in (" ", "\t"):
            self._put(self._text[self._at : self._at + 2], "__")
            self._at += 2
        elif character == "\\":
            self._take(2)
        elif character == "'":
            self._single_quotes()
        elif character == '"':
            self._contexts.pop() if context == '"' else self._contexts.append('"')
            self._take(1)
        elif character == "`":
            self._contexts.pop() if context == "`" else self._contexts.append("`")
            self._take(1)
        elif character == "$":
            self._dollar()
        elif character == "}":
            self._contexts.pop()
            self._take(1)
        elif character in "()":
            self._parenthesis(character)
        elif character == "#":
            self._hash()
        elif character == "<":
            self._less()
        else:
            self._newline()

    def _single_quotes(self) -> None:
        if self._contexts[-1] == "{" and '"' in self._contexts[-2:]:
            self._take(1)
            return
        start = self._at
        if start and self._text[start - 1] == "$":
            end = re.compile(r"(?:\\.|[^'\\])*'", re.DOTALL).match(self._text, start + 1)
            self._take((end.end() if end else len(self._text)) - start)
            return
        close = self._text.find("'", start + 1)
        self._take((close + 1 if close >= 0 else len(self._text)) - start)

    def _dollar(self) -> None:
        for opening, context in (("$((", "(("), ("$(", "("), ("${", "{")):
            if self._text.startswith(opening, self._at):
                self._contexts.append(context)
                self._take(len(opening))
                return
        self._take(1)

    def _parenthesis(self, character: str) -> None:
        context = self._contexts[-1]
        if character == "(":
            double = self._text.startswith("((", self._at) and context in _CODE
            array = context in _CODE and self._tail.endswith("=")
            inner = "(((" if context in ("((", "(((") else "array" if array else "("
            self._contexts.append("((" if double else inner)
            self._take(2 if double else 1)
        elif context == "((":
            self._contexts.pop()
            self._take(2 if self._text.startswith("))", self._at) else 1)
        else:
            if context in ("(", "(((", "array"):
                self._contexts.pop()
            self._take(1)

    def _hash(self) -> None:
        before = self._text[self._at - 1] if self._at else "\n"
        if before in " \t\n;&|()":
            end = self._text.find("\n", self._at)
            end = end if end >= 0 else len(self._text)
            comment = self._text[self._at : end]
            self._out.append(comment)
            self._grammar.append(" " * len(comment.encode("utf-8", "replace")))
            self._at = end
        else:
            self._take(1)

    def _less(self) -> None:
        string = _HERE_STRING.match(self._text, self._at)
        document = None if string else _OPERATOR.match(self._text, self._at)
        found = string or document
        if found is None:
            self._take(1)
            return
        number = len(self._operators)
        self._operators.append(found[0])
        self._documents.append(None)
        self._put(f"<{self._prefix}{number}__")
        self._at = found.end()
        if document is not None:
            word = document["word"]
            delimiter = re.sub(r"\\(.)|['\"]", r"\1", word)
            self._pending.append(_Pending(number, delimiter, bool(document["tabs"]), word == delimiter))

    def _newline(self) -> None:
        self._at += 1
        for pending in self._pending:
            self._documents[pending.number] = HereDocument(self._body(pending), pending.expands)
        self._pending = []
        self._put("\n", ";" if self._ends_command() else "\n")

    def _ends_command(self) -> bool:
        """Whether a line end here does the same as a semicolon."""
        if self._contexts[-1] == "array" or _OPEN.search(self._tail.rstrip(" \t")):
            return False
        if self._filled < self._at:
            filled = _FILLED.search(self._text, self._at)
            self._filled = filled.start() if filled else len(self._text)
        return self._text[self._filled : self._filled + 1] not in (";", ")", "&", "|", "")

    def _body(self, pending: _Pending) -> str:
        tabs = r"\t*" if pending.tabs else ""
        last = re.compile(rf"^{tabs}{re.escape(pending.delimiter)}(?:\n|\Z)", re.MULTILINE).search(self._text, self._at)
        body = self._text[self._at : last.start() if last else len(self._text)]
        self._at = last.end() if last else len(self._text)
        body = re.sub(r"^\t+", "", body, flags=re.MULTILINE) if pending.tabs else body
        return body if not body or body.endswith("\n") else body + "\n"


def _without_time(grammar: str) -> str:
    """Take away each `time` that the grammar would read as a program's name."""
    if "time" not in grammar:
        return grammar
    return _BLANK_WORD.sub(lambda found: found[0].replace(found[1], " " * len(found[1])), grammar)
