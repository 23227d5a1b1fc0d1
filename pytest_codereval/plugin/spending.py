"""Money and rate limits: prices, the session's budget, how many trials ask a provider at once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError
from .agents import add_agents_of_plugins

if TYPE_CHECKING:
    from ..running.session import Session
    from ..store.run_directory import RunDirectory
    from ..trajectory.prices import PriceList


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-budget-usd",
        type=float,
        metavar="USD",
        help="what all trials of the session may spend, in US dollars over all workers; a trial that would start "
        "once it is used up is not evaluated, and the exit status is not 0",
    )
    group.addoption(
        "--codereval-judge-budget-usd",
        metavar="USD",
        help="what the judges of all trials may spend of it, in US dollars; a criterion whose judge would be asked "
        "once it is used up is not evaluated (default: the ini setting codereval_judge_budget_usd)",
    )
    parser.addini(
        "codereval_judge_budget_usd",
        "what the judges of all trials of a session may spend, in US dollars (default: no limit of their own)",
        default="",
    )
    parser.addini(
        "codereval_prices",
        "prices that the built-in list lacks or has wrong: MODEL INPUT OUTPUT [CACHE_WRITE CACHE_READ] in US dollars "
        "per million tokens, one model a line, MODEL may be a glob",
        type="linelist",
        default=[],
    )
    parser.addini(
        "codereval_at_once",
        "how many trials may use a provider at the same time, over all workers: PROVIDER=NUMBER, one a line",
        type="linelist",
        default=[],
    )
    parser.addini(
        "codereval_patience",
        "multiplies the waits before a trial, or a call of the agent `anthropic`, is tried again after a fault of the "
        "model's provider",
        default="1",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    budget = config.getoption("codereval_budget_usd")
    if budget is not None and not 0 < budget < float("inf"):
        raise pytest.UsageError(f"--codereval-budget-usd {budget}: expected US dollars, more than 0")
    _judge_budget(config)
    _at_once(config)
    _patience(config)
    if config.getini("codereval_prices"):
        _price_list(config)


def session(config: pytest.Config, directory: RunDirectory) -> Session:
    """What the trials of this session share."""
    from ..running.session import Session

    return Session(
        directory.shared,
        prices=_price_list(config),
        budget_usd=config.getoption("codereval_budget_usd"),
        judge_budget_usd=_judge_budget(config),
        most_at_once=_at_once(config),
        patience=_patience(config),
    )


def _judge_budget(config: pytest.Config) -> float | None:
    given = config.getoption("codereval_judge_budget_usd")
    text, where = (given, "--codereval-judge-budget-usd") if given is not None else (None, "")
    if text is None:
        text, where = config.getini("codereval_judge_budget_usd"), "ini codereval_judge_budget_usd"
        if not text:
            return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise pytest.UsageError(f"{where} {text!r}: expected US dollars, more than 0")
    return value


def budget_line(config: pytest.Config, run_directory: Path) -> str | None:
    """What was spent of the session's budget, None when there is none."""
    budget = config.getoption("codereval_budget_usd")
    folder = run_directory / "shared"
    if budget is None or not folder.is_dir():
        return None
    from ..store.ledger import Ledger

    try:
        state = Ledger(folder, budget).state()
    except CoderEvalError as error:
        return f"session budget: {error}"
    line = f"session budget: ${state.spent:.4f} of ${Decimal(str(budget)):f} spent by {state.trials} trials"
    return line + (f", and what {state.incomplete} entries do not tell" if state.incomplete else "")


def _price_list(config: pytest.Config) -> PriceList:
    from ..trajectory.prices import PriceList

    try:
        return PriceList(config.getini("codereval_prices"))
    except CoderEvalError as error:
        raise pytest.UsageError(str(error)) from None


def _at_once(config: pytest.Config) -> dict[str, int]:
    found: dict[str, int] = {}
    if not config.getini("codereval_at_once"):
        return found
    from ..model_api.credentials import PROVIDERS
    from ..task.nearest import hint

    for line in config.getini("codereval_at_once"):
        provider, _, number = line.partition("=")
        if not provider.strip() or not number.strip().isdecimal() or int(number) < 1:
            raise pytest.UsageError(f"ini codereval_at_once: {line!r}: expected PROVIDER=NUMBER, such as anthropic=4")
        did_you_mean = hint(provider.strip(), PROVIDERS)
        if did_you_mean and provider.strip() not in PROVIDERS:
            raise pytest.UsageError(f"ini codereval_at_once: {line!r}: no such provider{did_you_mean}")
        found[provider.strip()] = int(number)
    if found:
        _check_providers(config, found)
    return found


def _check_providers(config: pytest.Config, named: Iterable[str]) -> None:
    from ..agents.registry import providers
    from ..task.nearest import hint

    add_agents_of_plugins(config)
    for name in named:
        if name not in providers():
            known = ", ".join(providers())
            raise pytest.UsageError(f"ini codereval_at_once: no provider {name!r}{hint(name, providers())} ({known})")


def _patience(config: pytest.Config) -> float:
    text = config.getini("codereval_patience")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise pytest.UsageError(f"ini codereval_patience {text!r}: expected a number, 0 or more")
    return value
