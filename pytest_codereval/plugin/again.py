"""Which kind of trial an item runs: one that works, or one that is judged again from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .options import settings

if TYPE_CHECKING:
    from ..recorder.answers.handler_files import FindByName
    from ..task.trials import TrialSpec
    from ..trial import Trial


def make_trial(config: pytest.Config, spec: TrialSpec, handler_by_name: FindByName) -> Trial:
    """The trial of an item, not begun."""
    from ..trial import Trial

    return Trial(spec, settings(config), handler_by_name)
