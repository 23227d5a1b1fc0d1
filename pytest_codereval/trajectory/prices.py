"""What calls of models cost: the author's own prices first, else the list that the package genai-prices brings."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..errors import CoderEvalError
from .model import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

SETTING = "codereval_prices"
EXPECTED = "MODEL INPUT OUTPUT [CACHE_WRITE CACHE_READ], prices in US dollars per million tokens, e.g. `my-model 3 15`"
BUCKETS = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
MOST_TOKENS = 10**12
"""A call that claims more is not believed."""

_MILLION = 1_000_000
_AMOUNT = re.compile(r"\d{1,9}(\.\d{1,12})?|\.\d{1,12}")
_EDITION = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|default)|-00\d|-preview(?:-\d\d-\d\d(?:\d\d)?)?)?(?:-v1|(?:-v\d+)?:\d+)?"
)
"""What follows a model's name without making it another model: its date or revision."""

_COMPACT_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=-|:|$)")
_BEDROCK = re.compile(
    r"(?:[a-z]+(?:-[a-z]+)?\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshotai?|nvidia|openai|qwen|writer|zai)\."
)
_BEDROCK_ARN = re.compile(r"arn:aws[a-z-]*:bedrock:[^/]*/")
_VERTEX_PATH = re.compile(r"(?:.*/)?publishers/[^/]+/models/")
_GATEWAYS = {
    "bedrock": "aws",
    "converse": "aws",
    "vertex": "google",
    "vertex_ai": "google",
    "gemini": "google",
    "models": "google",
    "azure_ai": "azure",
    "xai": "x-ai",
    "litellm": None,
    "litellm_proxy": None,
}
"""First parts of a model's id, before a slash, and whose prices hold behind them; None tells nothing."""


@dataclasses.dataclass(frozen=True)
class _Rates:
    """US dollars per million tokens; None is unknown."""

    input: Decimal
    output: Decimal
    cache_write: Decimal | None = None
    cache_read: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal | None:
        total = Decimal(0)
        for tokens, price in (
            (usage.input_tokens, self.input),
            (usage.cache_creation_tokens, self.cache_write),
            (usage.cache_read_tokens, self.cache_read),
            (usage.output_tokens, self.output),
        ):
            if tokens == 0 or price == 0:
                continue
            if tokens is None or price is None:
                return None
            total += price * tokens
        return total / _MILLION


_Cost = Callable[[Usage], Decimal | None]


class PriceList:
    """Prices of models by their id, as it was asked for or as a reply names it.

    A line of the author's goes before genai-prices. Among the lines one that names the model goes before one whose glob
    fits, and the first glob that fits is taken; a line for a bare name also holds for its dated editions and behind
    gateways (`us.anthropic.NAME-20251101-v1:0`, `openrouter/anthropic/NAME`, `NAME@20251101`).
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        """`lines` are those of the ini setting `codereval_prices`. Raises CoderEvalError for the first bad one."""
        self._named: dict[str, _Rates] = {}
        self._globs: list[tuple[str, _Rates]] = []
        self._price = functools.lru_cache(1000)(self._look_up)
        self._list_cost = functools.lru_cache(10_000)(self._calculate)
        for line in lines:
            if (text := line.strip()) and not text.startswith("#"):
                self._add(text)

    def _add(self, line: str) -> None:
        model, *amounts = line.lower().split()
        if len(amounts) not in (2, 4) or not all(map(_AMOUNT.fullmatch, amounts)):
            raise CoderEvalError(f"ini {SETTING}: {line!r}: expected {EXPECTED}")
        rates = _Rates(*map(Decimal, amounts))
        if any(sign in model for sign in "*?"):
            self._globs.append((model, rates))
        elif self._named.setdefault(model, rates) != rates:
            raise CoderEvalError(f"ini {SETTING}: {line!r}: {model} has another price in an earlier line")

    def cost(self, model: str | None, usage: Usage) -> float | None:
        """US dollars that one call cost, None when that is unknown.

        It is unknown for a model that no list has, when a count of tokens is None, when tokens were written to or read
        from a cache whose price is not in the list, and when the call had `extras`. What the provider itself charged,
        `usage.cost_usd`, goes before any list; but gateways say 0 of models whose price they do not know, so a 0 for
        tokens that were used counts as not told. Give one call's usage at a time: some prices depend on the length of
        the prompt.
        """
        if (charged := _charged(usage)) is not None:
            return charged
        if usage.extras or any(tokens is not None and not 0 <= tokens <= MOST_TOKENS for tokens in _buckets(usage)):
            return None
        return self._list_cost(model, usage)

    def least_cost(self, model: str | None, usage: Usage) -> float | None:
        """US dollars that one call cost at least: `cost`, else that of what is known of it; None when nothing is."""
        if (cost := self.cost(model, usage)) is not None:
            return cost
        known = {name: getattr(usage, name) or 0 for name in BUCKETS}
        for counts in (known, {**known, "cache_creation_tokens": 0, "cache_read_tokens": 0}):
            cost = (
                self.cost(model, dataclasses.replace(usage, extras=False, **counts)) if any(counts.values()) else None
            )
            if cost is not None:
                return cost
        return None

    def knows(self, model: str | None) -> bool:
        """Whether calls of this model have a price."""
        return self._price(model) is not None

    def _calculate(self, model: str | None, usage: Usage) -> float | None:
        price = self._price(model)
        cost = price(usage) if price is not None else None
        return None if cost is None else float(cost)

    def _look_up(self, model: str | None) -> _Cost | None:
        if not model or not model.strip():
            return None
        name = _plain(model)
        forms = list(dict.fromkeys(_forms(name)))
        for form in forms:
            if form in self._named:
                return self._named[form].cost
        for glob, rates in self._globs:
            if any(fnmatch.fnmatchcase(form, glob) for form in forms):
                return rates.cost
        found = _listed(name)
        return functools.partial(_listed_cost, *found) if found is not None else None


def _charged(usage: Usage) -> float | None:
    charged = usage.cost_usd
    if charged is None or not math.isfinite(charged) or charged < 0:
        return None
    return None if charged == 0 and any(_buckets(usage)) else charged


def _buckets(usage: Usage) -> tuple[int | None, ...]:
    return usage.input_tokens, usage.cache_creation_tokens, usage.cache_read_tokens, usage.output_tokens


def _plain(model: str) -> str:
    """Without the mark by which Claude Code asks for a long context."""
    return model.strip().lower().removesuffix("[1m]")


def _forms(name: str) -> Iterator[str]:
    """`name`, then without gateway, region and vendor, then without date and revision."""
    yield name
    _, rest = _route(name)
    bare = _BEDROCK.sub("", rest, count=1) if _BEDROCK.match(rest) else rest.rpartition("/")[2]
    yield rest
    yield bare
    for cut in range(1, len(bare)):
        if _EDITION.fullmatch(bare, cut):
            yield bare[:cut]
            return


def _route(name: str) -> tuple[str | None, str]:
    """Whose prices the id asks for, by genai-prices' name of the provider, and the id without what told it."""
    if path := _VERTEX_PATH.match(name):
        return "google", name[path.end() :]
    if arn := _BEDROCK_ARN.match(name):
        return "aws", name[arn.end() :]
    provider = None
    while provider != "openrouter":
        head, slash, rest = name.partition("/")
        if not slash or not (head in _GATEWAYS or head in _providers()):
            break
        provider = _GATEWAYS.get(head, head) or provider
        name = rest
    if provider is None and _BEDROCK.match(name):
        provider = "aws"
    if provider is None and name.startswith("claude-") and "@" in name:
        provider = "google"
    return provider, name


@functools.cache
def _providers() -> dict[str, Provider]:
    from genai_prices.data import providers

    return {provider.id: provider for provider in providers}


def _listed(name: str) -> tuple[ModelInfo, Provider] | None:
    """The model in the bundled list, whose matching is meant to be generous: what only begins alike is refused."""
    told, rest = _route(name)
    providers = _providers()
    if told is None:
        provider = next((p for p in providers.values() if p.model_match and p.model_match.is_match(rest)), None)
    else:
        provider = providers.get(told)
    if provider is None:
        return None
    homes = [provider, *(providers[other] for other in provider.fallback_model_providers or () if other in providers)]
    for spelling in dict.fromkeys((rest, _COMPACT_DATE.sub(r"-\1-\2-\3", rest))):
        for home in homes:
            if (model := _best(home, spelling)) is not None and _is_priced(model):
                return model, provider
    return None


def _best(provider: Provider, name: str) -> ModelInfo | None:
    candidates = [(_likeness(model.match, name), model) for model in provider.models if model.is_match(name)]
    likeness, best = max(candidates, key=lambda candidate: candidate[0], default=(0, None))
    return best if likeness else None


def _likeness(clause: Any, name: str) -> int:
    """How many characters of `name` the clause spells out, 0 when what it leaves open may be another model."""
    parts = getattr(clause, "or_", None) or getattr(clause, "and_", None)
    if parts:
        return max(_likeness(part, name) for part in parts)
    regex = getattr(clause, "regex", None)
    if regex is not None:
        exact = regex.endswith("$") and not re.search(r"\(\?|[*+]", regex)
        return len(name) if exact and re.fullmatch(regex, name) else 0
    texts = (getattr(clause, kind, None) for kind in ("equals", "starts_with", "ends_with", "contains"))
    text = next((text.lower() for text in texts if text), None)
    if text is None or not name.startswith(text) or not _EDITION.fullmatch(name, len(text)):
        return 0
    return len(text)


def _is_priced(model: ModelInfo) -> bool:
    prices = _prices_now(model)
    return prices.input_mtok is not None and prices.output_mtok is not None


def _prices_now(model: ModelInfo) -> Any:
    import datetime

    return model.get_prices(datetime.datetime.now(datetime.UTC))


def _listed_cost(model: ModelInfo, provider: Provider, usage: Usage) -> Decimal | None:
    from genai_prices import Usage as Listed

    prices = _prices_now(model)
    uncached, written, read, output = _buckets(usage)
    if uncached is None or written is None or read is None or output is None:
        return None
    if (written and prices.cache_write_mtok is None) or (read and prices.cache_read_mtok is None):
        return None
    counts = Listed(
        input_tokens=uncached + written + read,
        cache_write_tokens=written,
        cache_read_tokens=read,
        output_tokens=output,
    )
    return model.calc_price(counts, provider).total_price
