"""From a shell text to its statements."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

from .heredocs import MOST_TEXT, Extracted, TooLong, extract
from .lower_words import WordLowering, literal_word, names_in
from .syntax import (
    AndOr,
    Arithmetic,
    Assignment,
    Block,
    Case,
    CaseItem,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Item,
    Literal,
    Negated,
    Pipeline,
    Redirect,
    Simple,
    Statement,
    While,
    Word,
)
from .tree import Node, grouped, is_deeper, parse, text_of

MOST_STATEMENTS = 5000
"""Statements of a text that is followed."""
DEEPEST = 120
"""Levels of syntax that are followed."""

_RESERVED = frozenset("! { } then else elif fi do done esac coproc ]] function if while until for case".split())
_SEPARATORS = frozenset({";", "&", "\n", ";;", ";&", ";;&"})
_MISREAD = frozenset({"herestring_redirect", "heredoc_redirect", "comment"})
_JOINED = frozenset({"list", "pipeline", "negated_command"})
_PUNCTUATION = frozenset({"(", ")", "{", "}", "do", "done", "comment"})


class NotUnderstood(ValueError):
    """A text or a part of it is no shell that is understood."""


@dataclasses.dataclass(frozen=True)
class Script:
    """The statements of a text that are understood, and the texts of those that are not."""

    block: Block
    unparsed: tuple[str, ...] = ()


def read_script(text: str) -> Script:
    """Parse `text`. Never raises."""
    text = text.replace("\r\n", "\n")
    if not text.strip():
        return Script(Block())
    if "\0" in text or len(text) > MOST_TEXT:
        return Script(Block(), (text,))
    try:
        extracted = extract(text)
    except TooLong:
        return Script(Block(), (text,))
    source = extracted.text.encode("utf-8", "replace")
    root = parse(extracted.grammar.encode("utf-8", "replace"))
    if root.has_error:
        root = parse(source)
    if is_deeper(root, DEEPEST):
        return Script(Block(), (text,))
    try:
        return _Lowering(source, extracted).script(root)
    except TooLong:
        return Script(Block(), (text,))


@dataclasses.dataclass(frozen=True)
class _Element:
    operator: str
    negated: bool
    statement: Statement
    start: int


@dataclasses.dataclass(frozen=True)
class _Redirected:
    """The redirections behind the last element."""

    nodes: Sequence[Node]
    end: int


class _Lowering:
    def __init__(self, source: bytes, extracted: Extracted) -> None:
        self._source = source
        self._extracted = extracted
        self._statements = 0
        self._words = WordLowering(source, self._span, self.block, _inner_script)

    def script(self, root: Node) -> Script:
        items: list[Item] = []
        unparsed: list[str] = []
        for region in self._regions(root):
            try:
                if any(node.has_error for node in region):
                    raise NotUnderstood
                items.extend(self.block(region).items)
            except (NotUnderstood, RecursionError):
                unparsed.append(self._span(region[0].start_byte, region[-1].end_byte, bodies=True))
        return Script(Block(tuple(items)), tuple(unparsed))

    def _regions(self, root: Node) -> Iterator[list[Node]]:
        """Yield the top-level statements, each with its `&`; one that holds an error with all on its lines."""
        region: list[Node] = []
        broken = False
        for node in [root] if root.type == "ERROR" else root.children:
            touches = region and b"\n" not in self._source[region[-1].end_byte : node.start_byte]
            if region and not (touches and (broken or node.has_error or node.type == "&")):
                yield region
                region, broken = [], False
            region.append(node)
            broken = broken or node.has_error
        if region:
            yield region

    def block(self, nodes: Sequence[Node]) -> Block:
        items: list[Item] = []
        for node in nodes:
            if node.type == "&" and items:
                items[-1] = dataclasses.replace(items[-1], background=True)
            elif node.type not in _SEPARATORS and node.type not in _PUNCTUATION:
                items.append(Item(self.statement(node)))
        return Block(tuple(items))

    def statement(self, node: Node) -> Statement:
        self._statements += 1
        if self._statements > MOST_STATEMENTS:
            raise TooLong
        lower = _STATEMENTS.get(node.type)
        if lower is None:
            raise NotUnderstood(node.type)
        return lower(self, node)

    def _span(self, start: int, end: int, *, bodies: bool = False) -> str:
        return self._extracted.restore(self._source[start:end].decode("utf-8", "replace"), bodies=bodies)

    def simple(self, node: Node) -> Statement:
        compound = [child for child in node.children if child.type in ("subshell", "compound_statement")]
        if compound:
            return self._timed(node, compound)
        assigned = _of(node, "variable_assignment")
        redirects, nodes = self._redirects(_of(node, "file_redirect"))
        arguments = [child for child in node.children if child.type not in ("variable_assignment", "file_redirect")]
        if any(child.type in _MISREAD for child in arguments) or self._spans_lines(node):
            raise NotUnderstood(text_of(node))
        arguments = sorted(arguments + nodes, key=lambda child: child.start_byte)
        groups = list(grouped(arguments, self._source))
        ends = assigned[-1].end_byte if assigned else None
        tail = groups.pop(0) if groups and groups[0][0].start_byte == ends else []
        values = [self._words.assignment(child, tail if child is assigned[-1] else ()) for child in assigned]
        assignments = tuple(values)
        words = tuple(map(self._words.word, groups))
        raw = self._span(node.start_byte, node.end_byte)
        if len(words) > 1 and words[0].source == "coproc" and words[1].source not in _RESERVED | {"(", "(("}:
            return _coprocess(Simple(raw, words[1:], assignments, redirects))
        if words and words[0].source in _RESERVED:
            raise NotUnderstood(words[0].source)
        return Simple(raw, words, assignments, redirects)

    def _spans_lines(self, node: Node) -> bool:
        """Whether the parser took words of a later line for words of this command."""
        gaps = zip(node.children, node.children[1:], strict=False)
        return any(
            b"\n" in self._source[left.end_byte : right.start_byte].replace(b"\\\n", b"") for left, right in gaps
        )

    def _timed(self, node: Node, compound: list[Node]) -> Statement:
        words = [text_of(child) for child in node.children if child not in compound]
        if len(compound) != 1 or words[:1] != ["time"] or words[1:] not in ([], ["-p"]):
            raise NotUnderstood(text_of(node))
        return self.statement(compound[0])

    def declaration(self, node: Node) -> Statement:
        words: list[Word] = []
        declared: list[Assignment | str] = []
        for group in grouped(list(node.children), self._source):
            if group[0].type == "variable_assignment":
                assignment = self._words.assignment(group[0], group[1:])
                declared.append(assignment)
                words.append(_declaring(assignment, self._span(group[0].start_byte, group[-1].end_byte)))
                continue
            words.append(self._words.word(group))
            if group[0].type == "variable_name":
                declared.append(text_of(group[0]))
        return Simple(self._span(node.start_byte, node.end_byte), tuple(words), declared=tuple(declared))

    def test(self, node: Node) -> Statement:
        words = tuple(self._words.word(group) for group in grouped(list(_operands(node)), self._source))
        return Simple(self._span(node.start_byte, node.end_byte), words)

    def assignments(self, node: Node) -> Statement:
        found = [node] if node.type == "variable_assignment" else _of(node, "variable_assignment")
        values = tuple(self._words.assignment(child) for child in found)
        return Simple(self._span(node.start_byte, node.end_byte), (), values)

    def _redirects(self, nodes: Sequence[Node]) -> tuple[tuple[Redirect, ...], list[Node]]:
        """Return the redirections and the words behind them that belong to the command."""
        redirects: list[Redirect] = []
        rest: list[Node] = []
        for node in nodes:
            if node.type != "file_redirect":
                raise NotUnderstood(text_of(node))
            groups = list(grouped(node.children_by_field_name("destination"), self._source))
            rest.extend(child for group in groups[1:] for child in group)
            operator = "".join(child.type for child in node.children if child.type and not child.is_named)
            descriptor = "".join(text_of(child) for child in _of(node, "file_descriptor"))
            target = self._words.word(groups[0]) if groups else None
            redirects.append(self._redirect(operator, descriptor, target))
        return tuple(redirects), rest

    def _redirect(self, operator: str, descriptor: str, target: Word | None) -> Redirect:
        number = self._extracted.number(_marked(target)) if operator == "<" else None
        if number is None or target is None:
            return Redirect(operator, descriptor, target)
        document = self._extracted.documents[number]
        if document is None:
            word = _without_marker(target, self._extracted.marker(number))
            return Redirect("<<<", descriptor, None, word, self._extracted.operators[number] + word.source)
        text = _expanding(document.body) if document.expands else literal_word(document.body)
        return Redirect("<<", descriptor, None, text)

    def redirected(self, node: Node) -> Statement:
        body = node.child_by_field_name("body")
        if body is not None and body.type in _JOINED:
            return self.joined(node)
        nodes = [child for child in node.children if body is None or child.id != body.id]
        statement = self.statement(body) if body is not None else Simple("", ())
        return self._with_redirects(statement, nodes, node.start_byte, node.end_byte)

    def _with_redirects(self, statement: Statement, nodes: Sequence[Node], start: int, end: int) -> Statement:
        redirects, rest = self._redirects(nodes)
        if isinstance(statement, Simple):
            words = tuple(self._words.word(group) for group in grouped(rest, self._source))
            return dataclasses.replace(
                statement,
                raw=self._span(start, end),
                words=statement.words + words,
                redirects=statement.redirects + redirects,
            )
        if rest:
            raise NotUnderstood(self._span(start, end))
        return Group(statement, redirects=redirects)

    def joined(self, node: Node) -> Statement:
        """Return statements joined by `&&`, `||` and `|`. The parser's own grouping of them is often wrong, so they are
        grouped anew: a pipe binds tighter, `!` belongs to a pipeline and a redirection to the command before it.
        """
        chain: list[Statement] = []
        operators: list[str] = []
        pipe: list[_Element] = []
        for element in self._elements(node):
            if element.operator in ("&&", "||"):
                chain.append(_piped(pipe))
                operators.append(element.operator)
                pipe = []
            pipe.append(element)
        chain.append(_piped(pipe))
        return AndOr(tuple(chain), tuple(operators)) if operators else chain[0]

    def _elements(self, root: Node) -> list[_Element]:
        elements: list[_Element] = []
        waiting: list[Node | _Redirected] = [root]
        operator, negated = "", False
        while waiting:
            node = waiting.pop()
            if isinstance(node, _Redirected):
                last = elements[-1]
                statement = self._with_redirects(last.statement, node.nodes, last.start, node.end)
                elements[-1] = dataclasses.replace(last, statement=statement)
            elif node.type in ("&&", "||", "|", "|&"):
                operator = node.type
            elif node.type == "!":
                negated = not negated
            elif node.type in _JOINED:
                waiting.extend(reversed(node.children))
            elif node.type == "redirected_statement" and _is_joined(node.child_by_field_name("body")):
                body, *nodes = node.children
                waiting += [_Redirected(nodes, node.end_byte), body]
            elif node.type != "comment":
                elements.append(_Element(operator, negated, self.statement(node), node.start_byte))
                operator, negated = "", False
        return elements

    def subshell(self, node: Node) -> Statement:
        return Group(self.block(node.children), subshell=True)

    def group(self, node: Node) -> Statement:
        if node.children and node.children[0].type == "((":
            return Arithmetic(self._words.inner(node), tuple(names_in(node)))
        return Group(self.block(node.children))

    def conditional(self, node: Node) -> Statement:
        clauses: list[tuple[Block, Block]] = []
        otherwise: Block | None = None
        sections = [node.children] + [child.children for child in _of(node, "elif_clause")]
        for section in sections:
            then = next((index for index, child in enumerate(section) if child.type == "then"), None)
            if then is None:
                raise NotUnderstood(text_of(node))
            body = [child for child in section[then + 1 :] if child.type not in ("elif_clause", "else_clause", "fi")]
            clauses.append((self.block(section[1:then]), self.block(body)))
        for child in _of(node, "else_clause"):
            otherwise = self.block(child.children[1:])
        if any(not block.items for clause in clauses for block in clause):
            raise NotUnderstood(text_of(node))
        return If(tuple(clauses), otherwise)

    def loop(self, node: Node) -> Statement:
        body = _body(node)
        condition = self.block(node.children_by_field_name("condition"))
        return While(condition, self.block(body.children), node.children[0].type == "until")

    def repeat(self, node: Node) -> Statement:
        name = node.child_by_field_name("variable")
        has_words = any(child.type == "in" for child in node.children)
        values = node.children_by_field_name("value")
        words = tuple(self._words.word(group) for group in grouped(list(values), self._source))
        body = self.block(_body(node).children)
        select = node.children[0].type == "select"
        return For(text_of(name) if name else "", words if has_words else None, body, select)

    def counting(self, node: Node) -> Statement:
        body = _body(node)
        header = [child for child in node.children if child.id != body.id]
        inner = tuple(found for child in header for found in self._words.inner(child))
        names = tuple(name for child in header for name in names_in(child))
        return CountingFor(inner, names, self.block(body.children))

    def case(self, node: Node) -> Statement:
        subject = node.children_by_field_name("value")
        items = tuple(self._case_item(child) for child in _of(node, "case_item"))
        return Case(self._words.word(subject), items)

    def _case_item(self, node: Node) -> CaseItem:
        close = next((index for index, child in enumerate(node.children) if child.type == ")"), None)
        if close is None:
            raise NotUnderstood(text_of(node))
        patterns = [child for child in node.children[:close] if child.type not in ("|", "(")]
        words = tuple(self._words.word([child]) for child in patterns)
        goes_on = any(child.type in (";&", ";;&") for child in node.children)
        return CaseItem(words, self.block(node.children[close + 1 :]), goes_on)

    def function(self, node: Node) -> Statement:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            raise NotUnderstood(text_of(node))
        return Function(self._span(name.start_byte, name.end_byte), self.statement(body))


_STATEMENTS: dict[str, Callable[[_Lowering, Node], Statement]] = {
    "command": _Lowering.simple,
    "declaration_command": _Lowering.declaration,
    "unset_command": _Lowering.declaration,
    "test_command": _Lowering.test,
    "variable_assignment": _Lowering.assignments,
    "variable_assignments": _Lowering.assignments,
    "redirected_statement": _Lowering.redirected,
    "list": _Lowering.joined,
    "pipeline": _Lowering.joined,
    "negated_command": _Lowering.joined,
    "subshell": _Lowering.subshell,
    "compound_statement": _Lowering.group,
    "if_statement": _Lowering.conditional,
    "while_statement": _Lowering.loop,
    "for_statement": _Lowering.repeat,
    "c_style_for_statement": _Lowering.counting,
    "case_statement": _Lowering.case,
    "function_definition": _Lowering.function,
}


def _of(node: Node, kind: str) -> list[Node]:
    return [child for child in node.children if child.type == kind]


def _coprocess(command: Simple) -> Statement:
    """Return what runs beside the shell; `coproc NAME` stands before compound commands alone."""
    if any(word.source in ("{", "}") for word in command.words):
        raise NotUnderstood(command.raw)
    return Block((Item(command, background=True),))


def _is_joined(node: Node | None) -> bool:
    return node is not None and node.type in _JOINED


def _piped(elements: Sequence[_Element]) -> Statement:
    if any(element.negated for element in elements[1:]):
        raise NotUnderstood("! behind |")
    parts = tuple(element.statement for element in elements)
    pipeline = Pipeline(parts) if len(parts) > 1 else parts[0]
    return Negated(pipeline) if elements[0].negated else pipeline


def _body(node: Node) -> Node:
    body = node.child_by_field_name("body")
    if body is None:
        raise NotUnderstood(text_of(node))
    return body


def _operands(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type.endswith("_expression") and child.type != "brace_expression":
            yield from _operands(child)
        else:
            yield child


def _declaring(assignment: Assignment, source: str) -> Word:
    """Return the word of `export` that holds an assignment. Its substitutions belong to the assignment."""
    value = assignment.value
    if value is None or not all(isinstance(part, Literal) for part in value.parts):
        return literal_word(source)
    name = Literal(assignment.name + ("+=" if assignment.append else "="), quoted=True)
    return Word((name, *(dataclasses.replace(part, quoted=True) for part in value.parts)), source)


def _marked(target: Word | None) -> str:
    first = target.parts[0] if target is not None and target.parts else None
    return first.text if isinstance(first, Literal) else ""


def _without_marker(word: Word, marker: str) -> Word:
    first = word.parts[0]
    if not isinstance(first, Literal):
        raise NotUnderstood(word.source)
    head = first.text.removeprefix(marker)
    rest = word.parts[1:]
    return Word((Literal(head, first.quoted), *rest) if head else rest, word.source.removeprefix(marker))


def _expanding(body: str) -> Word:
    """Return the body of a here-document whose expansions are done, as it would stand between double quotes."""
    if not re.search(r"[\\$`]", body):
        return literal_word(body)
    quoted = re.sub(r'\\.|"', lambda found: {'\\"': '\\\\\\"', '"': '\\"'}.get(found[0], found[0]), body)
    try:
        statement = _inner_script(f': "{quoted}"').items[0].statement
    except NotUnderstood:
        statement = None
    if isinstance(statement, Simple) and len(statement.words) == 2:
        return statement.words[1]
    return literal_word(body)


def _inner_script(text: str) -> Block:
    script = read_script(text)
    if script.unparsed or not script.block.items:
        raise NotUnderstood(text)
    return script.block
