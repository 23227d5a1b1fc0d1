"""What the shell's own commands do to it, and how they end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .expansion import MOST_WORDS, Text, assigned, expand_word
from .outcomes import ANY, Ends
from .prefixes import replaces_path
from .scope import Scope, bounded
from .syntax import Assignment, Word

INSTANT = frozenset(
    "true : false echo printf exit return break continue set export declare typeset local readonly".split()
)
"""Commands during which a shell is not killed."""

DECLARATIONS = frozenset("export declare typeset local readonly".split())

_PLAIN_FORMAT = re.compile(r"(?:[^%\\]|%[%sbq]|\\[ntr\\\"'])*")


def ends_of(words: Sequence[Text], scope: Scope) -> Ends:
    """Return how a command by that name can end, and change `scope` as it does."""
    name, arguments = words[0].text, words[1:]
    if name in ("true", ":"):
        return Ends.OK
    if name == "false":
        return Ends.FAIL
    if name == "echo":
        return Ends.OK
    if name == "printf":
        return _printf(arguments, scope)
    if name in ("exit", "return"):
        return _leave(name, arguments, scope)
    if name in ("break", "continue"):
        return _jump(name, arguments, scope)
    if name == "set":
        _set(arguments, scope)
        return Ends.OK
    if name == "shift":
        scope.positional = _shifted(arguments, scope.positional)
        return ANY
    if name in ("read", "mapfile", "readarray", "getopts", "let"):
        for argument in arguments:
            found = re.match(r"[A-Za-z_]\w*", argument.text)
            if found:
                scope.variables[found[0]] = None
                scope.own_path = scope.own_path or found[0] == "PATH"
        return ANY
    if name == "hash" and any(argument.text.startswith("-p") for argument in arguments):
        scope.own_path = True
    if name == "kill" and any(argument.text in ("$$", "0") for argument in arguments):
        return ANY | Ends.EXIT_FAIL
    return ANY


def assign(assignment: Assignment, scope: Scope) -> None:
    """Change a variable of the shell."""
    name, value = assignment.name, assignment.value
    before = scope.variables.get(name)
    if name == "PATH" and not assignment.append:
        written = value.source if value is not None else ""
        scope.own_path = scope.own_path or replaces_path(name, written)
    if assignment.items is not None:
        items = [text for word in assignment.items for text in _items(word, scope)]
        array: list[str | None] = list(before) if assignment.append and isinstance(before, tuple) else []
        array += [None] if assignment.append and not isinstance(before, tuple) else []
        array += items
        known = tuple(item for item in array if item is not None)
        scope.variables[name] = bounded(known) if len(known) == len(array) <= MOST_WORDS else None
        return
    after = assigned(value, scope) if value is not None else None
    if assignment.append:
        after = before + after if isinstance(before, str) and after is not None else None
    scope.variables[name] = bounded(after)


def declare(name: str, declared: Sequence[Assignment | str], words: Sequence[Text], scope: Scope) -> Ends:
    """Do what `export`, `declare`, ... do."""
    fixed = name == "readonly" or any(re.fullmatch(r"-\w*r\w*", word.text) for word in words)
    for item in declared:
        variable = item if isinstance(item, str) else item.name
        if fixed:
            scope.fixed.add(variable)
        if scope.in_function and name in ("local", "declare", "typeset"):
            scope.local.setdefault(variable, scope.variables.get(variable))
        if isinstance(item, Assignment):
            assign(item, scope)
        elif name == "unset":
            scope.variables[variable] = None
            scope.functions.pop(variable, None)
            scope.own_path = scope.own_path or variable == "PATH"
        elif name == "local":
            scope.variables[variable] = None
        if name == "export" or any(re.fullmatch(r"-\w*x\w*", word.text) for word in words):
            scope.exported.add(variable)
    plain = all(not word.text.startswith("-") or word.text in ("-x", "-r", "-a", "-A", "-i", "-g") for word in words)
    return Ends.OK if plain and name != "unset" else ANY


def _items(word: Word, scope: Scope) -> list[str | None]:
    return [text.text if text.known and text.single else None for text in expand_word(word, scope)]


def _printf(arguments: Sequence[Text], scope: Scope) -> Ends:
    if arguments and arguments[0].text == "-v":
        if len(arguments) > 1:
            scope.variables[arguments[1].text] = None
            scope.own_path = scope.own_path or arguments[1].text == "PATH"
        return ANY
    plain = arguments and arguments[0].known and _PLAIN_FORMAT.fullmatch(arguments[0].text)
    return Ends.OK if plain and not arguments[0].text.startswith("-") else ANY


def _leave(name: str, arguments: Sequence[Text], scope: Scope) -> Ends:
    if name == "exit":
        good, bad = Ends.EXIT_OK, Ends.EXIT_FAIL
    elif scope.in_function:
        good, bad = Ends.RETURN_OK, Ends.RETURN_FAIL
    else:
        return ANY | Ends.EXIT_OK | Ends.EXIT_FAIL
    status = arguments[0] if arguments else None
    if status is None or not status.known or not re.fullmatch(r"\d{1,9}", status.text):
        return bad if status is not None and status.known else good | bad
    return good if int(status.text) % 256 == 0 else bad


def _jump(name: str, arguments: Sequence[Text], scope: Scope) -> Ends:
    if not scope.in_loop:
        return ANY
    one, more = (Ends.BREAK, Ends.BREAK_OUTER) if name == "break" else (Ends.CONTINUE, Ends.CONTINUE_OUTER)
    if not arguments or arguments[0].text == "1":
        return one
    return more if arguments[0].text == "2" else one | more


def _set(arguments: Sequence[Text], scope: Scope) -> None:
    index = 0
    while index < len(arguments):
        word = arguments[index].text
        index += 1
        if not arguments[index - 1].known:
            scope.errexit = scope.pipefail = scope.positional = None
            return
        if word == "--" or word[:1] not in ("-", "+") or word == "-":
            rest = arguments[index if word in ("--", "-") else index - 1 :]
            known = bounded(tuple(text.text for text in rest)) if all(text.known for text in rest) else None
            scope.positional = known if isinstance(known, tuple) else None
            return
        on = word[0] == "-"
        if "e" in word[1:]:
            scope.errexit = on
        if "o" in word[1:] and index < len(arguments):
            option = arguments[index].text
            index += 1
            if option == "pipefail":
                scope.pipefail = on
            elif option == "errexit":
                scope.errexit = on


def _shifted(arguments: Sequence[Text], positional: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if positional is None or (arguments and not re.fullmatch(r"\d{1,4}", arguments[0].text)):
        return None
    count = int(arguments[0].text) if arguments else 1
    return positional[count:] if count <= len(positional) else positional
