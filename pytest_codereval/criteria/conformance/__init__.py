"""The contract of live verdicts as small named checks, for the types of the package and for those of others.

A live verdict depends on nothing but the criterion and the evidence so far, it never changes once it is there, and the
final check agrees with it whatever comes later. In a plugin's own tests::

    CASES = [
        conformance.LiveCase("used", {"type": "my_type", "what": "x"}, conformance.tool("Bash", command="x"), "pass"),
        conformance.LiveCase("not yet", {"type": "my_type", "what": "x"}, conformance.tool("Bash", command="y"), None),
    ]

    @pytest.mark.parametrize("case", CASES, ids=str)
    @pytest.mark.parametrize("name", conformance.CHECKS)
    def test_live_verdicts(name, case):
        conformance.run(name, case, CASES)

    def test_each_live_verdict_is_reached():
        conformance.prove_complete("my_type", CASES)
"""

from __future__ import annotations

from .built_in import BUILT_IN
from .case import CaseEvent, LiveCase, call, tool
from .checks import CHECKS, prove_complete, run

__all__ = ["BUILT_IN", "CHECKS", "CaseEvent", "LiveCase", "call", "prove_complete", "run", "tool"]
