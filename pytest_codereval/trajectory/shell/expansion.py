"""Words with the values of what is known."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from .scope import Scope, Value
from .syntax import AndOr, Block, Literal, Opaque, Part, Simple, Statement, Substitution, Variable, Word

MOST_WORDS = 1000
"""Words that one word may become by braces."""

COST_OF_A_WORD = 20
"""Characters that a word counts as beside its own."""

_RANGE = re.compile(r"\{(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?\}")
_GLOB = re.compile(r"[*?\[]")
_LOOKUPS = {"which": [], "command": ["-v"], "type": ["-P"]}
_LONGEST_WITH_BRACES = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """One word after expansion; `single` when it is exactly one word, `certain` when it is at least one."""

    text: str
    known: bool = True
    single: bool = True
    certain: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    known: bool
    splits: bool = False
    breaks: bool = False
    """Whether a new word begins here."""
    certain: bool = True
    """Whether it makes a word even if nothing else does."""


def expand(words: Sequence[Word], scope: Scope) -> list[Text]:
    """Return the words that `words` become."""
    return [text for word in words for text in expand_word(word, scope)]


def expand_word(word: Word, scope: Scope) -> list[Text]:
    """Return the words that a word becomes; what is not known stays as it was written."""
    if all(isinstance(part, Literal) for part in word.parts):
        globs = any(isinstance(part, Literal) and not part.quoted and _GLOB.search(part.text) for part in word.parts)
        found = _braces(word) if scope.spend(0) or "{" not in word.source else []
        if len(found) != 1 and not scope.spend(sum(len(text) + COST_OF_A_WORD for text in found)):
            return [Text(word.source, known=False)]
        return [Text(text, single=not globs) for text in found]
    current: list[_Piece] = []
    result: list[Text] = []
    for piece in (piece for part in word.parts for piece in _pieces(part, scope)):
        if piece.breaks:
            result.extend(_joined(current))
            current = []
        if not piece.splits or not re.search(r"[ \t\n]", piece.text):
            current.append(piece)
            continue
        fields = piece.text.split()
        if piece.text[0].isspace():
            result.extend(_joined(current))
            current = []
        for index, field in enumerate(fields):
            current.append(_Piece(field, piece.known))
            if index + 1 < len(fields) or piece.text[-1].isspace():
                result.extend(_joined(current))
                current = []
    result.extend(_joined(current))
    return result


def text_of_word(word: Word, scope: Scope) -> Text:
    """Return a word as one text, without splitting, as in an assignment or a here-document."""
    pieces = [piece for part in word.parts for piece in _pieces(part, scope)]
    return Text("".join(piece.text for piece in pieces), all(piece.known for piece in pieces))


def substitutions(word: Word) -> Iterator[Substitution]:
    """Yield the substitutions of a word that run when it is expanded."""
    for part in word.parts:
        if isinstance(part, Substitution):
            yield part
        elif isinstance(part, Opaque):
            yield from part.inner


def optional_substitutions(word: Word) -> Iterator[Substitution]:
    """Yield the substitutions in the defaults of variables, which run only when they are needed."""
    for part in word.parts:
        if isinstance(part, Variable) and part.argument is not None:
            yield from substitutions(part.argument)
            yield from optional_substitutions(part.argument)


def assigned(value: Word, scope: Scope) -> str | None:
    """Return the value that a variable has after `name=value`."""
    found = text_of_word(value, scope)
    return found.text if found.known else None


def _joined(pieces: list[_Piece]) -> list[Text]:
    if not pieces or all(piece.splits and not piece.text and piece.known for piece in pieces):
        return []
    known = all(piece.known for piece in pieces)
    certain = any(piece.certain for piece in pieces)
    single = known or all(piece.known or (piece.certain and not piece.splits) for piece in pieces)
    return [Text("".join(piece.text for piece in pieces), known, single=single, certain=certain)]


def _pieces(part: Part, scope: Scope) -> Iterator[_Piece]:
    if isinstance(part, Literal):
        yield _Piece(part.text, True)
    elif isinstance(part, Variable):
        yield from _variable(part, scope)
    elif isinstance(part, Substitution):
        value = None if part.process else output_of(part.body, scope)
        if value is None:
            yield _unknown(part.source, part.quoted or part.process)
        else:
            yield _Piece(value.rstrip("\n"), True, splits=not part.quoted)
    else:
        yield _unknown(part.source, part.quoted or part.source.startswith("$(("))


def _unknown(source: str, one: bool) -> _Piece:
    return _Piece(source, False, certain=one)


def _variable(part: Variable, scope: Scope) -> Iterator[_Piece]:
    value = _value(part, scope)
    if value is None:
        if part.operator in (":-", "-", ":=", "=") and part.argument is not None and _is_unset(part.name, scope):
            value = assigned(part.argument, scope)
        if value is None:
            yield _unknown(part.source, part.quoted and not part.every and part.name != "@")
            return
    elif part.operator in (":-", ":=") and value == "" and part.argument is not None:
        value = assigned(part.argument, scope)
    elif part.operator in (":+", "+") and part.argument is not None:
        value = assigned(part.argument, scope) if value else "" if part.operator == ":+" else value
    if value is None or not scope.spend(_cost(value) * (1 if part.quoted else 4)):
        yield _unknown(part.source, part.quoted)
    elif isinstance(value, str):
        yield _Piece(value, True, splits=not part.quoted)
    else:
        for index, item in enumerate(value):
            yield _Piece(item, True, splits=not part.quoted, breaks=index > 0)
        if not value:
            yield _Piece("", True, splits=True)


def _cost(value: str | tuple[str, ...]) -> int:
    return len(value) if isinstance(value, str) else sum(len(item) + COST_OF_A_WORD for item in value)


def _value(part: Variable, scope: Scope) -> Value:
    name = part.name
    if name in ("@", "*"):
        if scope.positional is None or (name == "*" and part.quoted):
            return None if scope.positional is None else " ".join(scope.positional)
        return scope.positional
    if name == "#":
        return None if scope.positional is None else str(len(scope.positional))
    if name.isdecimal():
        if scope.positional is None or name == "0":
            return None
        number = int(name)
        return scope.positional[number - 1] if number <= len(scope.positional) else ""
    value = scope.variables.get(name)
    if isinstance(value, tuple) and not part.every:
        return value[0] if value else ""
    return value


def _is_unset(name: str, scope: Scope) -> bool:
    return name.isdecimal() and scope.positional is not None and int(name) > len(scope.positional)


def output_of(block: Block, scope: Scope) -> str | None:
    """Return what a block prints, where that is plain: `echo text`, `cat` of a here-document, `seq 3`.

    The path that `which name` or `command -v name` finds counts as the bare name.
    """
    if len(block.items) != 1:
        return None
    statement = block.items[0].statement
    if isinstance(statement, AndOr):
        return _looked_up(statement.parts[0], scope)
    return output_of_simple(statement, scope) if isinstance(statement, Simple) else None


def output_of_simple(statement: Simple, scope: Scope) -> str | None:
    """Return what a simple command prints, where that is plain."""
    if statement.assignments or not statement.words:
        return None
    words = expand(statement.words, scope)
    if not words or not all(word.known for word in words):
        return None
    texts = [word.text for word in words[1:]]
    documents = [redirect.text for redirect in statement.redirects if redirect.text is not None]
    if words[0].text == "cat" and not texts and len(documents) == 1 == len(statement.redirects):
        found = text_of_word(documents[0], scope)
        return found.text if found.known else None
    found_name = _found(words)
    if found_name is not None or statement.redirects:
        return found_name
    return _printed(words[0].text, texts)


def _looked_up(statement: Statement, scope: Scope) -> str | None:
    return _found(expand(statement.words, scope)) if isinstance(statement, Simple) else None


def _found(words: Sequence[Text]) -> str | None:
    """Return the name that `which` or `command -v` looks up."""
    texts = [word.text for word in words if word.known]
    found = len(texts) == len(words) > 1 and texts[1:-1] == _LOOKUPS.get(texts[0])
    return texts[-1] if found and not texts[-1].startswith("-") else None


def _printed(program: str, texts: list[str]) -> str | None:
    if program == "echo" and not any("\\" in text for text in texts):
        if texts and re.fullmatch(r"-[neE]+", texts[0]):
            return " ".join(texts[1:]) if texts[0] == "-n" else None
        return " ".join(texts) + "\n"
    if program == "printf" and len(texts) == 1 and not re.search(r"[%\\]", texts[0]):
        return texts[0]
    if program == "printf" and len(texts) == 2 and texts[0] in ("%s", "%s\\n"):
        return texts[1]
    if program == "seq" and 1 <= len(texts) <= 2 and all(re.fullmatch(r"-?\d{1,6}", text) for text in texts):
        first, last = (1, int(texts[0])) if len(texts) == 1 else (int(texts[0]), int(texts[1]))
        return " ".join(str(number) for number in range(first, min(last, first + MOST_WORDS) + 1))
    return None


def _braces(word: Word) -> list[str]:
    """Return the words that braces make of a word of literals; quoted braces and commas stand for themselves."""
    literals = [part for part in word.parts if isinstance(part, Literal)]
    whole = "".join(part.text for part in literals)
    braces = any("{" in part.text for part in literals if not part.quoted)
    if not braces or len(whole) > _LONGEST_WITH_BRACES:
        return [whole]
    quoted: list[str] = []
    text = ""
    for part in literals:
        if part.quoted:
            text += f"\ue000{len(quoted)}\ue001"
            quoted.append(part.text)
        else:
            text += part.text
    found = _brace(text, 0)
    if found is None or len(found) > MOST_WORDS:
        return [whole]

    def back(match: re.Match[str]) -> str:
        return quoted[int(match[1])] if int(match[1]) < len(quoted) else match[0]

    return [re.sub("\ue000(\\d+)\ue001", back, item) for item in found]


def _brace(text: str, depth: int) -> list[str] | None:
    if depth > 8:
        return None
    for start in (found.start() for found in re.finditer(r"\{", text)):
        span = _RANGE.match(text, start)
        if span is not None:
            options, end = _numbers(span), span.end()
        else:
            options, end = _options(text, start)
        if options is None or len(options) > MOST_WORDS:
            continue
        rest = _brace(text[end:], depth + 1)
        heads = [inner for option in options for inner in (_brace(option, depth + 1) or [option])]
        if rest is None or len(heads) * len(rest) > MOST_WORDS:
            return None
        return [text[:start] + head + tail for head in heads for tail in rest]
    return [text]


def _numbers(span: re.Match[str]) -> list[str] | None:
    first, last, step = span[1], span[2], abs(int(span[3] or 1)) or 1
    if len(first) > 6 or len(last) > 6 or (len(first) > 1 and first.lstrip("-").startswith("0")):
        return None
    low, high = int(first), int(last)
    numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    return [str(number) for number in numbers] if len(numbers) <= MOST_WORDS else None


def _options(text: str, start: int) -> tuple[list[str] | None, int]:
    level, at = 0, start + 1
    options: list[str] = []
    for index in range(start, len(text)):
        character = text[index]
        if character == "{":
            if index and text[index - 1] == "$":
                return None, 0
            level += 1
        elif character == "}":
            level -= 1
            if level == 0:
                return ([*options, text[at:index]], index + 1) if options else (None, 0)
        elif character == "," and level == 1:
            options.append(text[at:index])
            at = index + 1
    return None, 0
