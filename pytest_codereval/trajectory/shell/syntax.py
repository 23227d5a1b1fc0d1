"""The syntax of a shell text as far as it is judged: statements, and words made of parts."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself. Quoted text is not split and has no braces."""

    text: str
    quoted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """An expansion of a variable. `operator` is empty or one of `:-`, `-`, `:+`, `+`, `:=`, `=`; `every` for `[@]`."""

    name: str
    source: str
    quoted: bool = False
    operator: str = ""
    argument: Word | None = None
    every: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, or a process substitution."""

    body: Block
    source: str
    quoted: bool = False
    process: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """An expansion whose value is not computed. The substitutions inside it run."""

    source: str
    inner: tuple[Substitution, ...] = ()
    quoted: bool = False


Part = Literal | Variable | Substitution | Opaque


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """One word of a command as written."""

    parts: tuple[Part, ...]
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`. `value` is None for an array or an element of one that is not known; `items` an array's words."""

    name: str
    value: Word | None
    append: bool = False
    items: tuple[Word, ...] | None = None
    inner: tuple[Substitution, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection; `text` is what a here-document or here-string gives to the standard input."""

    operator: str
    descriptor: str
    target: Word | None
    text: Word | None = None
    source: str = ""
    """Of a here-string: how it is written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Simple:
    """A simple command as written."""

    raw: str
    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    declared: tuple[Assignment | str, ...] = ()
    """Of `export`, `local`, ...: what they declare."""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A statement of a block; `background` when `&` follows it."""

    statement: Statement
    background: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Statements after each other."""

    items: tuple[Item, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class AndOr:
    """Statements joined by `&&` and `||`, one operator less than statements."""

    parts: tuple[Statement, ...]
    operators: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """Statements joined by `|`."""

    parts: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Negated:
    """`! statement`."""

    body: Statement


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """`{ ...; }`, or `( ... )` when it is a subshell, with redirections."""

    body: Statement
    subshell: bool = False
    redirects: tuple[Redirect, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class If:
    """`if`, with its `elif` clauses as (condition, body)."""

    clauses: tuple[tuple[Block, Block], ...]
    otherwise: Block | None


@dataclasses.dataclass(frozen=True, slots=True)
class While:
    """`while`, or `until`."""

    condition: Block
    body: Block
    until: bool


@dataclasses.dataclass(frozen=True, slots=True)
class For:
    """`for name in words`; `words` is None where the positional parameters are meant."""

    name: str
    words: tuple[Word, ...] | None
    body: Block
    select: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CountingFor:
    """`for ((start; condition; step))`, whose header is not computed but for the substitutions in it."""

    header: tuple[Substitution, ...]
    names: tuple[str, ...]
    body: Block


@dataclasses.dataclass(frozen=True, slots=True)
class CaseItem:
    """One branch of `case`."""

    patterns: tuple[Word, ...]
    body: Block
    goes_on: bool = False
    """Whether `;&` or `;;&` follows."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """`case subject in ... esac`."""

    subject: Word
    items: tuple[CaseItem, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Statement


@dataclasses.dataclass(frozen=True, slots=True)
class Arithmetic:
    """`(( ... ))`."""

    inner: tuple[Substitution, ...]
    names: tuple[str, ...]


Statement = (
    Simple | Block | AndOr | Pipeline | Negated | Group | If | While | For | CountingFor | Case | Function | Arithmetic
)
