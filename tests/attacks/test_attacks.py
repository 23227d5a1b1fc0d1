"""Each attack succeeds against the open driver, and comes to what the table says against the others."""

from __future__ import annotations

import pytest

from .availability import why_not
from .model import State
from .runner import DRIVERS, all_attacks, run_driver


def test_there_are_enough_attacks_and_each_says_what_it_is() -> None:
    attacks = [attack for _, attack in all_attacks()]
    assert len({attack.name for attack in attacks}) == len(attacks) >= 40
    assert all(attack.tries and attack.success and attack.script for attack in attacks)


@pytest.mark.parametrize("driver", ["bubblewrap", "docker"])
def test_strong_drivers_may_let_nothing_pass_unseen(driver: str) -> None:
    allowed = [attack.name for _, attack in all_attacks() if attack.expected.of(driver) is State.POSSIBLE]
    assert allowed == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("driver", DRIVERS)
def test_attacks_come_to_what_the_table_says(driver: str) -> None:
    if reason := why_not(driver):
        pytest.skip(f"{driver} cannot be had here: {reason}")
    report = run_driver(driver)
    wrong = [str(each) for each in report.results if not each.right]
    assert not wrong, "\n".join(wrong)
    if driver != "open":
        assert report.changed == (), "what is the operator's was changed"
        assert report.left == (), "something of the trials stays on the disk"
