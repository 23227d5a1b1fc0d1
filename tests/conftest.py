"""What holds for all tests: criteria of vendors are known, as in a session of the plugin, and how long an example of
hypothesis takes tells only how busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from pytest_codereval.criteria.registry import use_kinds
from pytest_codereval.criteria.vendor import KINDS

use_kinds(KINDS)

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
