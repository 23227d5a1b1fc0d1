"""Changes of the prompt that an experiment makes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..experiment_models import PromptMutation, PromptPrefix, PromptReplace, PromptSuffix, PromptTemplate
from .engine import Origin

_NAME = re.compile(r"(?<!\$)\{([^{}]+)\}")


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of the prompt and where it stands."""

    mutation: PromptMutation
    origin: Origin

    def told(self) -> str:
        """The change and its place: `prefix of experiment.yaml:9 defaults`."""
        return f"{self.mutation.type} of {self.origin.layer.describe(self.origin.location)}"


def changed(prompt: str, changes: Sequence[Change], fill: Callable[[str], str] = str) -> str:
    """The prompt after all changes, in their order; `fill` puts a row's values into the texts that they add.

    Raises ValueError when a regular expression's replacement asks for a group that is not there.
    """
    for change in changes:
        prompt = _changed(prompt, change.mutation, fill)
    return prompt


def _changed(prompt: str, mutation: PromptMutation, fill: Callable[[str], str]) -> str:
    match mutation:
        case PromptPrefix():
            return fill(mutation.content) + mutation.separator + prompt
        case PromptSuffix():
            return prompt + mutation.separator + fill(mutation.content)
        case PromptReplace():
            return _replaced(prompt, mutation, fill)
        case PromptTemplate():
            return _filled_in(prompt, mutation.variables, fill)
        case _:
            raise AssertionError(f"no such change of a prompt: {mutation.type}")


def _replaced(prompt: str, mutation: PromptReplace, fill: Callable[[str], str]) -> str:
    if not mutation.regex:
        return prompt.replace(mutation.pattern, fill(mutation.replacement))
    try:
        return re.sub(mutation.pattern, fill(mutation.replacement), prompt)
    except (re.error, IndexError) as error:
        raise ValueError(f"the replacement {mutation.replacement!r}: {error}") from None


def _filled_in(prompt: str, variables: Mapping[str, Any], fill: Callable[[str], str]) -> str:
    def value(match: re.Match[str]) -> str:
        return fill(variables[match[1]]) if match[1] in variables else match[0]

    return _NAME.sub(value, prompt)
