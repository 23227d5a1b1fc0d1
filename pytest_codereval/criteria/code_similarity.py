"""How alike two Python sources are, by three methods. Each gives 1 to a copy."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
import warnings
from collections.abc import Callable, Sequence

_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.With,
    ast.AsyncWith,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)


class NotPython(ValueError):
    """A text that Python's own parser refuses, with the reason."""


def similarity(method: str, left: str, right: str) -> float:
    """Return how alike two sources are, 0 to 1, by `ast`, `token` or `complexity`. Raises NotPython."""
    return _METHODS[method](left, right)


def require_python(source: str) -> None:
    """Raise NotPython when `source` does not parse."""
    _tree(source)


def _by_ast(left: str, right: str) -> float:
    """Similarity of the sequences of syntax node types, in the order of `ast.walk`."""
    return _ratio(*([type(node).__name__ for node in ast.walk(_tree(source))] for source in (left, right)))


def _by_token(left: str, right: str) -> float:
    """Similarity of the sequences of token types."""
    return _ratio(_token_types(left), _token_types(right))


def _by_complexity(left: str, right: str) -> float:
    """0.5 of cyclomatic complexity, 0.3 of lines of code, 0.2 of functions: each the smaller over the larger."""
    one, other = _measures(left), _measures(right)
    parts = (min(a, b) / max(a, b) if max(a, b) else 1.0 for a, b in zip(one, other, strict=True))
    return sum(weight * part for weight, part in zip((0.5, 0.3, 0.2), parts, strict=True))


_METHODS: dict[str, Callable[[str, str], float]] = {
    "ast": _by_ast,
    "token": _by_token,
    "complexity": _by_complexity,
}


def _ratio(left: Sequence[object], right: Sequence[object]) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def _tree(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise NotPython(str(error)) from None
    except (RecursionError, MemoryError):
        raise NotPython("it is nested too deeply") from None


def _token_types(source: str) -> list[int]:
    _tree(source)
    try:
        return [token.type for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    except (tokenize.TokenError, SyntaxError) as error:
        raise NotPython(str(error)) from None


def _measures(source: str) -> tuple[int, int, int]:
    """Cyclomatic complexity, lines that are neither empty nor a comment, and number of functions."""
    nodes = list(ast.walk(_tree(source)))
    branches = sum(isinstance(node, _BRANCHES) for node in nodes)
    branches += sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    lines = [line.strip() for line in source.splitlines()]
    code = sum(bool(line) and not line.startswith("#") for line in lines)
    functions = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
    return 1 + branches, code, functions
