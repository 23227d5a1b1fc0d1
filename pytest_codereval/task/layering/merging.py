"""What becomes of a field that two layers give: each model declares it, once for all layers."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping


class Strategy(enum.Enum):
    """What a higher layer does with the value of a lower one."""

    REPLACE = "replace"
    DEEP = "deep"
    """Mappings are merged key by key; anything else is replaced."""

    APPEND = "append"
    """The items of the higher layer stand behind those of the lower one."""

    PREPEND = "prepend"
    """The items of the higher layer stand in front of those of the lower one."""

    OVERLAY = "overlay"
    """As APPEND, but what an experiment or the command line gives stands behind what task and folders give."""


@dataclasses.dataclass(frozen=True)
class Merging:
    """The strategy of each field of a model. `deep` leads to the merging of the mapping inside, None for a free one.

    Of the fields in one group of `exclusive` those of the highest layer that gives any hold. `others` is for fields
    that are not declared: by its type, so that one of a plugin's agent is merged too. `aliases` are other spellings of
    a field. A model that is only ever taken as a whole has `WHOLE`.
    """

    replace: tuple[str, ...] = ()
    deep: Mapping[str, Merging | None] = dataclasses.field(default_factory=dict)
    append: tuple[str, ...] = ()
    prepend: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, ...], ...] = ()
    others: Strategy = Strategy.DEEP
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that it declares, one that is declared twice standing twice."""
        return (*self.replace, *self.deep, *self.append, *self.prepend, *self.overlay)

    def strategy(self, name: str) -> Strategy:
        """The strategy of a field."""
        for strategy in (Strategy.REPLACE, Strategy.APPEND, Strategy.PREPEND, Strategy.OVERLAY):
            if name in getattr(self, strategy.value):
                return strategy
        return Strategy.DEEP if name in self.deep else self.others

    def inside(self, name: str) -> Merging:
        """The merging of the mapping in a field."""
        return self.deep.get(name) or FREE

    def siblings(self, name: str) -> tuple[str, ...]:
        """The fields that a field excludes."""
        return tuple(other for group in self.exclusive if name in group for other in group if other != name)

    def canonical(self, name: str) -> str:
        """The field that a key means."""
        return self.aliases.get(name, name)

    def and_(self, *others: Merging) -> Merging:
        """This and more fields: of a derived model, or of all models that stand in one place."""
        every = (self, *others)

        def joined(name: str) -> tuple[str, ...]:
            return tuple(dict.fromkeys(field for each in every for field in getattr(each, name)))

        deep = {name: inside for each in every for name, inside in each.deep.items()}
        aliases = {alias: name for each in every for alias, name in each.aliases.items()}
        groups = tuple(dict.fromkeys(group for each in every for group in each.exclusive))
        return Merging(
            replace=joined("replace"),
            deep=deep,
            append=joined("append"),
            prepend=joined("prepend"),
            overlay=joined("overlay"),
            exclusive=groups,
            aliases=aliases,
        )


FREE = Merging()
"""A mapping whose keys are the author's: it is merged key by key, at every depth."""

NAMED = Merging(others=Strategy.REPLACE)
"""A mapping whose keys are the author's and whose values are taken as a whole."""

WHOLE = Merging()
"""A model that no layer changes in part: an item of a list, or a value that is replaced."""
