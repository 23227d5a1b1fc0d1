"""What holds for all tests: criteria of vendors are known, as in a session of the plugin; how long an example of
hypothesis takes tells only how busy the machine is; and programs that tests start take signals as in a terminal, also
where a shell started the tests in the background, which ignores some."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

from pytest_codereval.criteria.registry import use_kinds
from pytest_codereval.criteria.vendor import KINDS

use_kinds(KINDS)

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
