"""What is asked of the model that plays the user, when it is over, and what each of its faults becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.dialog import simulated_user
from pytest_codereval.dialog.simulated_user import direct_name
from pytest_codereval.dialog.talk import Tell, make_talk
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.model_api.messages import Reply
from pytest_codereval.trajectory.model import ModelCall, Usage

from ..task.samples import load
from .talks import USER, nothing, soon, talk

TOKENS = Usage(input_tokens=100, cache_creation_tokens=5000, cache_read_tokens=7000, output_tokens=20)


@dataclasses.dataclass
class Model:
    """Stands in the API's place: replies with texts in order, or raises."""

    replies: list[str | Reply | AgentError] = dataclasses.field(default_factory=list)
    requests: list[Mapping[str, Any]] = dataclasses.field(default_factory=list)
    deadlines: list[float] = dataclasses.field(default_factory=list)
    usage: Usage = TOKENS
    closed: bool = False

    def ask(self, request: Mapping[str, Any], deadline: float, tell: Tell) -> Reply:
        self.requests.append(request)
        self.deadlines.append(deadline)
        answer = self.replies.pop(0)
        if isinstance(answer, AgentError):
            raise answer
        reply = answer if isinstance(answer, Reply) else said(answer)
        tell(ModelCall(f"msg-{len(self.requests)}", reply.model, self.usage))
        return reply

    def close(self) -> None:
        self.closed = True


def said(text: str, stop_reason: str = "end_turn") -> Reply:
    return Reply("m", "claude-sonnet-4-6", ({"type": "text", "text": text},), stop_reason)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    stub = Model()
    monkeypatch.setattr(simulated_user, "MessagesApi", lambda **_: stub)
    yield stub
    assert stub.replies == []


def spoken(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"][0]["text"]) for message in request["messages"]]


def test_the_model_sees_the_conversation_from_the_users_side(model: Model) -> None:
    model.replies = ["Good morning", "Thank you", "<<<END>>>"]
    dialog = talk({}, prompt="A greeting please")
    assert dialog.opening(soon()) == "A greeting please"
    assert model.requests == []
    assert dialog.answer("Which words?", soon()) == "Good morning"
    assert dialog.answer("Done.", soon()) == "Thank you"
    assert dialog.answer("Bye.", soon()) is None
    first = simulated_user.BEGIN
    assert spoken(model.requests[0]) == [("user", first), ("assistant", "A greeting please"), ("user", "Which words?")]
    assert spoken(model.requests[1]) == [
        *spoken(model.requests[0]),
        ("assistant", "Good morning"),
        ("user", "Done."),
    ]
    assert spoken(model.requests[2])[:-2] == spoken(model.requests[1])
    assert dialog.record["ended"] == "stop_token"
    assert dialog.record["opening"] == "given"
    assert dialog.record["exchanges"] == [
        {"user": "A greeting please", "agent": "Which words?"},
        {"user": "Good morning", "agent": "Done."},
        {"user": "Thank you", "agent": "Bye."},
    ]


def test_what_grows_is_cached_and_no_tool_is_offered(model: Model) -> None:
    model.replies = ["b", "c"]
    dialog = talk({})
    dialog.opening(soon())
    dialog.answer("x", soon())
    dialog.answer("y", soon())
    for request in model.requests:
        assert set(request) == {"model", "max_tokens", "system", "messages"}
        assert request["model"] == "claude-sonnet-4-6"
        assert request["system"][0]["cache_control"] == {"type": "ephemeral"}
        marks = ["cache_control" in message["content"][0] for message in request["messages"]]
        assert marks == [False] * (len(marks) - 1) + [True]


def test_the_model_knows_its_role_and_nothing_of_the_judging(model: Model) -> None:
    model.replies = ["b"]
    dialog = talk(
        {"constraints": ["Never say\n  please.", "Be short."], "stop_token": "[BYE]"},
        description="About {bread}",
        reference={"code": "the-secret-solution"},
        success_criteria=[{"type": "file_exists", "description": "criterion-text", "path": "criterion-file"}],
        agent={"type": "claude-code", "system_prompt": "system-of-the-agent"},
    )
    dialog.opening(soon())
    dialog.answer("x", soon())
    text = model.requests[0]["system"][0]["text"]
    for part in ("You sell bread.", "Get a greeting.", "- Never say please.\n- Be short.\n", "About {bread}", "[BYE]"):
        assert part in text
    for part in ("secret", "criterion-", "system-of-the-agent"):
        assert part not in str(model.requests[0])
    assert dialog.record["instructions"] == text


def test_an_opening_can_be_generated(model: Model) -> None:
    model.replies = [" Hello, I need a greeting. \n"]
    dialog = talk({}, prompt="")
    assert dialog.opening(soon()) == "Hello, I need a greeting."
    assert spoken(model.requests[0]) == [("user", simulated_user.BEGIN)]
    assert dialog.record["opening"] == "generated"


@pytest.mark.parametrize(
    ("text", "last_words"),
    [("<<<END>>>", None), ("Thanks, that is it.\n<<<END>>> bye", "Thanks, that is it.")],
)
def test_what_comes_with_the_stop_token_is_not_said_to_the_agent(
    model: Model, text: str, last_words: str | None
) -> None:
    model.replies = [text]
    dialog = talk({"stop_token": "<<<END>>> "})
    dialog.opening(soon())
    assert dialog.answer("Done.", soon()) is None
    assert dialog.record["ended"] == "stop_token"
    assert dialog.record["last_words"] == last_words
    assert dialog.answer("Anything else?", soon()) is None


def test_the_agent_cannot_end_it_with_the_stop_token(model: Model) -> None:
    model.replies = ["Go on."]
    dialog = talk({})
    dialog.opening(soon())
    assert dialog.answer("<<<END>>>", soon()) == "Go on."


def test_after_the_last_turn_nobody_is_asked(model: Model) -> None:
    model.replies = ["b"]
    dialog = talk({"max_turns": 2})
    dialog.opening(soon())
    assert dialog.answer("x", soon()) == "b"
    assert dialog.answer("y", soon()) is None
    assert dialog.record["ended"] == "max_turns"
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("cap", "asked", "ended"), [(999, 0, "token_budget"), (1000, 1, "token_budget"), (1120, 2, None)]
)
def test_the_token_budget_is_of_both_sides_and_without_the_cache(
    model: Model, cap: int, asked: int, ended: str | None
) -> None:
    model.replies = ["b"] * asked
    dialog = talk({"max_total_tokens": cap}, spent_by_agent=lambda: 1000)
    dialog.opening(soon())
    for _ in range(2):
        dialog.answer("x", soon())
    assert len(model.requests) == asked
    assert dialog.record["ended"] == ended


def test_a_token_budget_needs_known_tokens(model: Model) -> None:
    dialog = talk({"max_total_tokens": 10}, spent_by_agent=lambda: None)
    dialog.opening(soon())
    with pytest.raises(AgentError, match="max_total_tokens cannot be held") as caught:
        dialog.answer("x", soon())
    assert caught.value.cause is Cause.CONFIGURATION
    model.usage = Usage()
    model.replies = ["b"]
    dialog = talk({"max_total_tokens": 10})
    dialog.opening(soon())
    dialog.answer("x", soon())
    with pytest.raises(AgentError, match="max_total_tokens needs that") as caught:
        dialog.answer("y", soon())
    assert caught.value.cause is Cause.SIMULATED_USER


@pytest.mark.parametrize(("cap", "asked", "ended"), [(0.0001, 1, "cost_budget"), (1, 2, None)])
def test_a_budget_in_dollars_is_for_the_simulated_user_alone(
    model: Model, cap: float, asked: int, ended: str | None
) -> None:
    model.replies = ["b"] * asked
    dialog = talk({"max_usd": cap}, spent_by_agent=lambda: 10**9)
    dialog.opening(soon())
    for _ in range(2):
        dialog.answer("x", soon())
    assert len(model.requests) == asked
    assert dialog.record["ended"] == ended


def test_a_budget_in_dollars_needs_a_price(model: Model) -> None:
    with pytest.raises(AgentError, match=r"'nobodys-model' \(simulation\.model\) costs is not known") as caught:
        talk({"max_usd": 1, "model": "nobodys-model"})
    assert caught.value.cause is Cause.UNPRICED
    model.replies = [dataclasses.replace(said("b"), model="nobodys-model")]
    dialog = talk({"max_usd": 1})
    dialog.opening(soon())
    dialog.answer("x", soon())
    with pytest.raises(AgentError, match=r"simulation\.model. costs is not known") as caught:
        dialog.answer("y", soon())
    assert caught.value.cause is Cause.UNPRICED


def test_it_waits_between_tries_as_long_as_its_caller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, float]] = []
    monkeypatch.setattr(simulated_user, "MessagesApi", lambda **settings: asked.append(settings))
    task = load(initial_prompt="hi", simulation=USER).task
    make_talk(task, "hi", nothing, patience=0.25)
    make_talk(task, "hi", nothing)
    assert asked == [{"first_wait": 0.25}, {"first_wait": 1.0}]


def test_when_no_time_is_left_nobody_is_asked(model: Model) -> None:
    dialog = talk({})
    dialog.opening(soon())
    with pytest.raises(AgentError, match="time was up") as caught:
        dialog.answer("x", clock.monotonic() - 1)
    assert caught.value.cause is Cause.TASK_TIMEOUT
    assert model.requests == []


@pytest.mark.parametrize("said", ["", " \n\t"])
def test_an_agent_that_says_nothing_ends_it(model: Model, said: str) -> None:
    dialog = talk({})
    dialog.opening(soon())
    assert dialog.answer(said, soon()) is None
    assert dialog.record["ended"] == "empty_reply"


FAULTS: list[tuple[str | Reply | AgentError, str]] = [
    (AgentError(Cause.OVERLOADED, "529 after 3 tries", 7.0), "overloaded: 529 after 3 tries"),
    (AgentError(Cause.REFUSED, "no"), "refused: no"),
    (AgentError(Cause.AUTHENTICATION, "401"), "authentication: 401"),
    ("", "empty"),
    (" \n", "empty"),
    (said("half of a", "max_tokens"), "max_tokens"),
    (said("no", "refusal"), "refusal"),
    (said("x", "tool_use"), "tool_use"),
]


@pytest.mark.parametrize(("fault", "told"), FAULTS, ids=[told for _, told in FAULTS])
@pytest.mark.parametrize("turn", [1, 3])
def test_a_fault_of_the_user_is_no_failure_of_the_agent(
    model: Model, turn: int, fault: str | Reply | AgentError, told: str
) -> None:
    model.replies = [*["go on"] * (turn - 1), fault]
    dialog = talk({}, prompt="")
    with pytest.raises(AgentError) as caught:
        dialog.opening(soon())
        for _ in range(3):
            dialog.answer("x", soon())
    assert caught.value.cause is Cause.SIMULATED_USER
    assert f"message {turn} of the simulated user: " in str(caught.value)
    assert told in str(caught.value)
    assert caught.value.retry_after == (fault.retry_after if isinstance(fault, AgentError) else None)
    assert dialog.record["ended"] == "fault"
    assert len(dialog.record["exchanges"]) == turn - 1  # type: ignore[arg-type]


def test_a_stop_token_cannot_open_a_conversation(model: Model) -> None:
    model.replies = ["Hello. <<<END>>>"]
    dialog = talk({}, prompt="")
    with pytest.raises(AgentError, match=r"message 1 .*: it ended the conversation before it had begun") as caught:
        dialog.opening(soon())
    assert caught.value.cause is Cause.SIMULATED_USER


def test_wild_text_from_either_side_is_tamed(model: Model) -> None:
    model.replies = ["a\ud800\x00b\x1b[2J", "c"]
    dialog = talk({})
    dialog.opening(soon())
    text = dialog.answer("\udcff" + "x" * 1_000_000 + "\x00the end", soon())
    assert text == "a\\ud800\\x00b\\x1b[2J"
    dialog.answer("y", soon())
    seen = spoken(model.requests[0])[-1][1]
    assert len(seen) < 110_000
    assert seen.startswith("\\udcff")
    assert seen.endswith("the end")
    str(model.requests).encode()
    str(dialog.record["exchanges"][1]).encode()  # type: ignore[index]


def test_one_message_does_not_take_all_the_time_there_is(model: Model) -> None:
    model.replies = ["b", "c"]
    dialog = talk({})
    dialog.opening(soon())
    early = soon()
    dialog.answer("x", early)
    dialog.answer("y", clock.monotonic() + 100_000)
    assert model.deadlines[0] == early
    assert model.deadlines[1] <= clock.monotonic() + simulated_user.REPLY_TIMEOUT


def test_calls_are_told_at_once(model: Model) -> None:
    told: list[object] = []
    model.replies = ["b", "c"]
    dialog = talk({}, tell=told.append)
    dialog.opening(soon())
    dialog.answer("x", soon())
    assert len(told) == 1
    dialog.answer("y", soon())
    assert [call.usage for call in told if isinstance(call, ModelCall)] == [TOKENS, TOKENS]
    dialog.close()
    assert model.closed


@pytest.mark.parametrize(
    ("name", "direct"),
    [
        ("claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("anthropic.claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("eu.anthropic.claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"),
        ("anthropic/claude-opus-4-8", "claude-opus-4-8"),
        ("openrouter/anthropic/claude-opus-4-8", "claude-opus-4-8"),
        ("bedrock/eu.anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"),
        ("my-anthropic-model", "my-anthropic-model"),
        ("claude-x-v1", "claude-x-v1"),
    ],
)
def test_prefixes_of_gateways_are_left_out(name: str, direct: str) -> None:
    assert direct_name(name) == direct
