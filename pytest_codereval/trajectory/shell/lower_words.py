"""From nodes of the syntax tree to words and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .syntax import Assignment, Block, Literal, Opaque, Part, Substitution, Variable, Word
from .tree import Node, text_of

_DEFAULTS = frozenset({":-", "-", ":+", "+", ":=", "="})
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI_C = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]")
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})


def literal_word(text: str) -> Word:
    """Return a word of one quoted literal."""
    return Word((Literal(text, quoted=True),), text)


class WordLowering:
    """Turns the nodes of words into `Word`s. `span` gives the text between two bytes as it was written, `block` lowers
    statements and `script` the text of statements.
    """

    def __init__(
        self,
        source: bytes,
        span: Callable[[int, int], str],
        block: Callable[[Sequence[Node]], Block],
        script: Callable[[str], Block],
    ) -> None:
        self._source = source
        self._span = span
        self._block = block
        self._script = script

    def word(self, nodes: Sequence[Node]) -> Word:
        """Return the word that the touching `nodes` make."""
        parts: list[Part] = []
        pieces = list(_pieces(nodes))
        for before, node in zip([None, *pieces], pieces, strict=False):
            after_dollar = before is not None and before.type == "$"
            name = _PLAIN_NAME.match(self._plain(node)) if after_dollar and node.type in ("word", "number") else None
            if name is not None:
                parts.append(Variable(name.group(), f"${name.group()}", False))
                parts.append(Literal(_unescaped(self._plain(node)[name.end() :])))
            elif node.type != "$":
                parts.extend(self._parts(node, quoted=False))
        return Word(tuple(parts), self._span(nodes[0].start_byte, nodes[-1].end_byte))

    def _plain(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _text(self, node: Node) -> str:
        return self._span(node.start_byte, node.end_byte).strip()

    def inner(self, node: Node) -> tuple[Substitution, ...]:
        """Return the substitutions anywhere inside `node`, not those inside them."""
        return tuple(
            part
            for found in _substitutions(node)
            for part in self._substitution(found, quoted=True)
            if isinstance(part, Substitution)
        )

    def assignment(self, node: Node, tail: Sequence[Node] = ()) -> Assignment:
        """Return the assignment of a `variable_assignment`; `tail` are nodes that touch it, the rest of its value."""
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        append = any(child.type == "+=" for child in node.children)
        text = self._plain(name) if name is not None else ""
        if name is None or name.type != "variable_name":
            return Assignment(text.partition("[")[0], None, inner=self.inner(node))
        if value is None:
            return Assignment(text, Word((), ""), append)
        if value.type == "array":
            items = [child for child in value.children if child.is_named]
            known = all(child.type not in ("variable_assignment", "comment") for child in items)
            words = tuple(self.word([child]) for child in items) if known else None
            return Assignment(text, None, append, words, () if known else self.inner(value))
        return Assignment(text, self.word([value, *tail]), append)

    def _parts(self, node: Node, quoted: bool) -> Iterator[Part]:
        kind = node.type
        if kind == "string":
            yield from self._string(node)
        elif kind == "raw_string":
            yield Literal(self._plain(node)[1:-1], quoted=True)
        elif kind == "ansi_c_string":
            yield Literal(_ANSI_C.sub(_ansi_c, self._plain(node)[2:-1]), quoted=True)
        elif kind in ("concatenation", "command_name", "translated_string"):
            for child in node.children:
                if child.type != "$":
                    yield from self._parts(child, quoted)
        elif kind == "simple_expansion":
            source = self._text(node)
            yield Variable(source[1:], source, quoted)
        elif kind == "expansion":
            yield self._expansion(node, quoted)
        elif kind in _SUBSTITUTIONS:
            yield from self._substitution(node, quoted)
        elif kind == "arithmetic_expansion" or any(child.is_named for child in node.children):
            if kind == "brace_expression":
                yield Literal(self._plain(node))
            else:
                yield Opaque(self._text(node), self.inner(node), quoted)
        else:
            yield Literal(_unescaped(self._plain(node)), quoted)

    def _string(self, node: Node) -> Iterator[Part]:
        at = node.start_byte + 1
        children = [child for child in node.children if child.type != '"']
        for child in children:
            text = self._plain(child)
            blank = len(text) - len(text.lstrip()) if child.type != "string_content" else 0
            start = child.start_byte + blank
            if start > at:
                yield Literal(_unescaped_in_quotes(self._source[at:start].decode("utf-8", "replace")), quoted=True)
            if child.type == "string_content":
                yield Literal(_unescaped_in_quotes(text), quoted=True)
            else:
                yield from self._parts(child, quoted=True)
            at = child.end_byte
        end = node.end_byte - 1
        if end > at or not children:
            yield Literal(_unescaped_in_quotes(self._source[at:end].decode("utf-8", "replace")), quoted=True)

    def _expansion(self, node: Node, quoted: bool) -> Part:
        source = self._text(node)
        inside = [child for child in node.children if child.type not in ("${", "}")]
        if not inside:
            return Opaque(source, self.inner(node), quoted)
        first, rest = inside[0], inside[1:]
        if first.type == "subscript" and not rest:
            name, _, index = self._plain(first).partition("[")
            if index == "@]" or (index == "*]" and not quoted):
                return Variable(name, source, quoted, every=True)
        if first.type not in ("variable_name", "special_variable_name"):
            return Opaque(source, self.inner(node), quoted)
        if not rest:
            return Variable(self._plain(first), source, quoted)
        operator = self._plain(rest[0])
        if operator in _DEFAULTS:
            argument = self.word(rest[1:]) if rest[1:] else Word((), "")
            return Variable(self._plain(first), source, quoted, operator, argument)
        return Opaque(source, self.inner(node), quoted)

    def _substitution(self, node: Node, quoted: bool) -> Iterator[Part]:
        source = self._text(node)
        children = [child for child in node.children if child.is_named or child.type in (";", "&", "\n")]
        if source.startswith("`"):
            if "\\" in source:
                text = re.sub(r"\\([\\`$])", r"\1", source[1:-1])
                yield Substitution(self._script(text), source, quoted)
                return
            yield Substitution(self._block(children), source, quoted)
        elif any(child.type == "file_redirect" for child in children):
            yield Opaque(source, self.inner(node) if node.children else (), quoted)
        else:
            process = node.type == "process_substitution"
            yield Substitution(self._block(children), source, quoted, process)


def _pieces(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes, those that only join others opened: in `$a/$b/c` the second `$` ends one, and `b/c` is the next."""
    for node in nodes:
        if node.type in ("concatenation", "command_name"):
            yield from _pieces(node.children)
        else:
            yield node


def _substitutions(node: Node) -> Iterator[Node]:
    waiting = list(reversed(node.children))
    while waiting:
        child = waiting.pop()
        if child.type in _SUBSTITUTIONS:
            yield child
        else:
            waiting.extend(reversed(child.children))


def names_in(node: Node) -> Iterator[str]:
    """Yield the names of variables anywhere in `node`."""
    waiting = [node]
    while waiting:
        child = waiting.pop()
        if child.type in ("variable_name", "word"):
            yield text_of(child)
        waiting.extend(child.children)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(?:\n|(.))", lambda found: found[1] or "", text) if "\\" in text else text


def _unescaped_in_quotes(text: str) -> str:
    return re.sub(r"\\(?:\n|([\\\"`$]))", lambda found: found[1] or "", text) if "\\" in text else text


def _ansi_c(found: re.Match[str]) -> str:
    for digits in found.group(1, 2, 3):
        if digits:
            number = int(digits, 16)
            return chr(number) if number < 0xD800 or 0xE000 <= number < 0x110000 else "?"
    if found[4]:
        return chr(int(found[4], 8) & 0xFF)
    return _ESCAPES.get(found[5], found[5] if found[5] in "\\'\"?" else found[0])
