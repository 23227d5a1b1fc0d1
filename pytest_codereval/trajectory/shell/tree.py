"""Access to tree-sitter-bash."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import tree_sitter
import tree_sitter_bash

Node = tree_sitter.Node

_ASCII = bytes(range(128)) + b"_" * 128
"""The grammar's own scanner reads outside of its tables at some characters beyond ASCII, which may end the process; to
a shell they are letters all alike.
"""

_LEFT_DEEP = frozenset({"list", "pipeline"})


@functools.cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    """Return the root of the syntax tree of `source`, which is UTF-8. Its nodes have `_` for each byte beyond ASCII."""
    return _parser().parse(source.translate(_ASCII)).root_node


def is_deeper(root: Node, limit: int) -> bool:
    """Whether nodes of the tree lie more than `limit` deep; chains of `&&` and `||` count as one level."""
    cursor = root.walk()
    levels = [0]
    while True:
        node = cursor.node
        assert node is not None
        deep = levels[-1] + (node.type not in _LEFT_DEEP)
        if deep > limit:
            return True
        if cursor.goto_first_child():
            levels.append(deep)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            levels.pop()


def text_of(node: Node) -> str:
    """Return the source text of a node."""
    text = node.text
    return text.decode("utf-8", "replace") if text is not None else ""


def grouped(nodes: list[Node], source: bytes) -> Iterator[list[Node]]:
    """Yield nodes that touch each other, or that only a line continuation parts, together: they are one word."""
    group: list[Node] = []
    for node in nodes:
        if group and source[group[-1].end_byte : node.start_byte].replace(b"\\\n", b""):
            yield group
            group = []
        group.append(node)
    if group:
        yield group
