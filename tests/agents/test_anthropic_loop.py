"""The agent `anthropic`: how it goes on, when it ends and what it tells of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_codereval.errors import AgentError, Cause, TrialError
from pytest_codereval.model_api.messages import MessagesApi
from pytest_codereval.task.agent_models import AnthropicAgent
from pytest_codereval.trajectory.model import ModelCall, ToolCall
from tests.fakes import FakeAnthropic, call, fault, say, think, turn

from .anthropic_run import KEY, Loop, check_transcript, loops, sent_results

Make = Callable[..., Loop]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    with loops(monkeypatch) as made:
        yield made


def test_a_task_from_prompt_to_answer(make: Make) -> None:
    script = [
        turn(think("First I look."), say("I look around."), call("Bash", command="echo out; echo err >&2; exit 3")),
        turn(
            call("Write", file_path="a/b.txt", content="one\n"),
            call("Edit", file_path="a/b.txt", old_string="one", new_string="two"),
        ),
        call("Read", file_path="a/b.txt"),
        say("Done."),
    ]
    with FakeAnthropic(script) as fake:
        loop = make().start(fake).run("Do it.")
        assert loop.failure is None
        assert loop.texts == [("assistant", "I look around."), ("assistant", "Done.")]
        told = [(one.name, dict(one.parameters), one.status, one.exit_status) for one in loop.calls()]
        assert told == [
            ("Bash", {"command": "echo out; echo err >&2; exit 3"}, "error", 3),
            ("Write", {"file_path": "a/b.txt", "content": "one\n"}, "success", None),
            ("Edit", {"file_path": "a/b.txt", "old_string": "one", "new_string": "two"}, "success", None),
            ("Read", {"file_path": "a/b.txt"}, "success", None),
        ]
        assert loop.calls("Bash")[0].output == "out\nerr\n"
        assert (loop.sandbox.workspace / "a/b.txt").read_text() == "two\n"
        assert [result["is_error"] for result in sent_results(fake)] == [True, False, False, False]
        for request in fake.requests:
            check_transcript(request.body["messages"])
        thought = fake.requests[-1].body["messages"][1]["content"][0]
        assert (thought["thinking"], bool(thought["signature"])) == ("First I look.", True)
        buckets = [dataclasses.asdict(one.usage) | {"model": one.model} for one in loop.replies]
        assert buckets == [dataclasses.asdict(one) | {"cost_usd": None, "extras": False} for one in fake.ledger]
    assert all(one.complete for one in loop.replies)


def test_a_call_is_told_at_its_start_and_at_its_end(make: Make) -> None:
    with FakeAnthropic([call("Bash", command="true"), say("Done.")]) as fake:
        loop = make().start(fake).run()
    begin, end = [event for event in loop.events if isinstance(event, ToolCall)]
    assert begin.id == end.id
    assert (begin.status, begin.ended) == ("unknown", None)
    assert end.status == "success"
    assert end.ended is not None
    assert end.started <= end.ended


def test_what_the_task_says_is_sent(make: Make) -> None:
    with FakeAnthropic([say("Done.")]) as fake:
        make().start(fake, system_prompt="Be kind.", thinking="adaptive", effort="low", max_tokens=99).run()
        body = fake.requests[0].body
    assert body["model"] == "claude-fake-1"
    assert (body["max_tokens"], body["thinking"]) == (99, {"type": "adaptive"})
    assert body["output_config"] == {"effort": "low"}
    assert body["system"][-1] == {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    assert [tool["name"] for tool in body["tools"]] == ["bash", "str_replace_based_edit_tool"]


def test_a_thinking_budget_leaves_room_for_the_answer(make: Make) -> None:
    with FakeAnthropic([say("Done.")]) as fake:
        make().start(fake, thinking={"budget_tokens": 50_000}).run()
        body = fake.requests[0].body
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 50_000}
    assert body["max_tokens"] > 50_000


@pytest.mark.parametrize(
    "config",
    [
        {"thinking": "sometimes"},
        {"thinking": True},
        {"thinking": {"budget_tokens": 3}},
        {"thinking": {"budget_tokens": 2000, "more": 1}},
        {"thinking": {"budget_tokens": 2000}, "max_tokens": 2000},
        {"effort": "some"},
        {"max_tokens": 0},
        {"context_window": 100_000},
    ],
)
def test_settings_that_make_no_sense_are_refused_at_load(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AnthropicAgent(**config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"permission_mode": "plan"}, "permission_mode"),
        ({"allowed_tools": ["Bash(git *)"]}, "Bash(git *)"),
        ({"disallowed_tools": ["Bash(rm:*)"]}, "Bash(rm:*)"),
        ({"allowed_tools": ["bash"]}, "did you mean 'Bash'"),
        ({"allowed_tools": ["Bahs", "Read"]}, "agent.allowed_tools: no tool is called 'Bahs'; did you mean 'Bash'?"),
        ({"disallowed_tools": ["WebSerch"]}, "did you mean 'WebSearch'?"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_spent(make: Make, config: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentError) as raised:
        make().start(**config)
    assert raised.value.cause is Cause.CONFIGURATION
    assert said in str(raised.value)


def test_it_needs_a_model_and_a_key(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match="--codereval-model") as raised:
        make(model=None).start()
    assert raised.value.cause is Cause.CONFIGURATION
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(AgentError) as raised:
        make().start()
    assert raised.value.cause is Cause.NO_CREDENTIALS


@pytest.mark.parametrize(
    ("kind", "options", "cause"),
    [
        ("refusal", {}, Cause.REFUSED),
        ("max_tokens", {}, Cause.OUTPUT_CUT),
        ("context_full", {"how": "stop"}, Cause.CONTEXT_FULL),
    ],
)
def test_a_reply_that_breaks_off_is_no_end_and_nothing_of_it_is_done(
    make: Make, kind: str, options: dict[str, Any], cause: Cause
) -> None:
    reply = call("Bash", command="touch done")
    with FakeAnthropic([fault(kind, reply=reply, **options)]) as fake:
        loop = make().start(fake).run()
    assert loop.failure is not None
    assert loop.failure.cause is cause
    assert [one.complete for one in loop.replies] == [True]
    assert loop.calls() == []
    assert list(loop.sandbox.workspace.iterdir()) == []


@pytest.mark.parametrize("reply", [say("?", stop_reason="a_new_reason"), say("?", stop_reason="tool_use")])
def test_a_reason_that_makes_no_sense_is_a_fault(make: Make, reply: Any) -> None:
    with FakeAnthropic([reply]) as fake:
        loop = make().start(fake).run()
        assert len(fake.requests) == 1
    assert loop.failure is not None
    assert loop.failure.cause is Cause.API_FAULT


def test_calls_are_carried_out_whatever_the_reason(make: Make) -> None:
    with FakeAnthropic([turn(call("Bash", command="touch a"), stop_reason="end_turn"), say("Done.")]) as fake:
        loop = make().start(fake).run()
        check_transcript(fake.requests[-1].body["messages"])
    assert loop.texts[-1] == ("assistant", "Done.")
    assert (loop.sandbox.workspace / "a").exists()


def test_a_pause_goes_on(make: Make) -> None:
    with FakeAnthropic([say("Wait.", stop_reason="pause_turn"), say("Done.")]) as fake:
        loop = make().start(fake).run()
        assert [message["role"] for message in fake.requests[-1].body["messages"]] == ["user", "assistant"]
    assert loop.texts == [("assistant", "Wait."), ("assistant", "Done.")]


@pytest.mark.parametrize("entry", [turn(), say(""), say(" \n"), say("Enough.", stop_reason="stop_sequence")])
def test_an_empty_end_is_an_end_and_a_prompt_can_follow(make: Make, entry: Any) -> None:
    with FakeAnthropic([entry, say("Again.")]) as fake:
        loop = make().start(fake).run()
        assert loop.failure is None
        loop.run("More.")
        check_transcript(fake.requests[-1].body["messages"])
    assert loop.texts[-1:] == [("assistant", "Again.")]


def test_a_second_prompt_goes_on_with_the_conversation(make: Make) -> None:
    with FakeAnthropic(
        [call("Bash", command="cd /; pwd"), say("One."), call("Bash", command="pwd"), say("Two.")]
    ) as fake:
        loop = make().start(fake).run("First.").run("Second.")
        messages = fake.requests[-1].body["messages"]
        check_transcript(messages)
    assert [one["text"] for message in messages for one in message["content"] if one["type"] == "text"] == [
        *("First.", "One.", "Second.")
    ]
    assert loop.calls()[-1].output == "/\n"


def test_no_call_is_made_that_is_not_admitted(make: Make) -> None:
    answers = [True, False, True]
    with FakeAnthropic([call("Bash", command="true"), say("Done.")]) as fake:
        loop = make(admit=lambda main: answers.pop(0)).start(fake).run()
        assert loop.failure is None
        assert len(fake.requests) == 1
        loop.run("Go on.")
        check_transcript(fake.requests[-1].body["messages"])
    assert loop.texts[-1] == ("assistant", "Done.")


@pytest.mark.parametrize("when", ["reply", "start of a call", "end of a call"])
def test_it_can_be_stopped_at_any_event_and_prompted_again(make: Make, when: str) -> None:
    conditions: dict[str, Callable[[Any], bool]] = {
        "reply": lambda event: isinstance(event, ModelCall),
        "start of a call": lambda event: isinstance(event, ToolCall),
        "end of a call": lambda event: isinstance(event, ToolCall) and event.ended is not None,
    }
    two = turn(call("Bash", command="echo 1"), call("Bash", command="echo 2"))
    with FakeAnthropic([two, say("Done.")]) as fake:
        loop = make().start(fake).run(stop_at=conditions[when]).run("Go on.")
        check_transcript(fake.requests[-1].body["messages"])
        assert [result["is_error"] for result in sent_results(fake)] == [when != "end of a call", True]
    assert loop.failure is None


def test_a_fault_that_passes_is_told_and_one_that_stays_ends_the_run(make: Make) -> None:
    script = [fault(529), call("Bash", command="true"), fault("cut"), fault(401), say("too late")]
    with FakeAnthropic(script) as fake:
        loop = make().start(fake).run()
    assert [one.cause for one in loop.faults] == [Cause.OVERLOADED, Cause.CONNECTION, Cause.AUTHENTICATION]
    assert [one.complete for one in loop.replies] == [True, False]
    assert loop.failure is not None
    assert loop.failure.cause is Cause.AUTHENTICATION


@pytest.mark.parametrize("entry", [fault("hang"), fault("slow_drip"), call("Bash", command="sleep 600")])
def test_the_deadline_ends_every_wait(make: Make, entry: Any) -> None:
    with FakeAnthropic([entry, say("too late")]) as fake:
        loop = make().start(fake)
        loop.run(seconds=1.5)
        assert len(fake.requests) == 1
    assert loop.failure is not None
    assert loop.failure.cause is Cause.TURN_TIMEOUT
    assert len(loop.replies) == 1
    assert [(one.status, one.exit_status) for one in loop.calls()] in ([], [("error", 137)])


def test_a_sandbox_that_failed_is_no_fault_of_the_model(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise TrialError(Cause.TAMPERED, "the keeper is gone")

    with FakeAnthropic([call("Bash", command="true"), say("too late")]) as fake:
        loop = make().start(fake)
        monkeypatch.setattr(loop.sandbox, "run", fail)
        loop.run()
    assert loop.failure is not None
    assert loop.failure.cause is Cause.TAMPERED
    assert [one.status for one in loop.calls()] == ["unknown"]


@pytest.mark.parametrize("stopped", [False, True])
def test_an_interrupt_loses_neither_itself_nor_what_was_used(
    make: Make, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    used = ModelCall("call-1", "claude-fake-1", complete=False)

    def ask(api: Any, request: Any, deadline: float, tell: Callable[[Any], None]) -> Any:
        tell(used)
        raise KeyboardInterrupt

    monkeypatch.setattr(MessagesApi, "ask", ask)
    loop = make().start()
    with pytest.raises(KeyboardInterrupt):
        loop.run(stop_at=(lambda event: event is used) if stopped else None)
    assert loop.events[-1] is used


def test_text_that_is_no_unicode_breaks_nothing(make: Make) -> None:
    with FakeAnthropic([call("Bash", command="printf %s 'a\ud800b'"), say("c\udfffd"), say("Done.")]) as fake:
        loop = make().start(fake).run("e\udc80f").run("More.")
    assert loop.failure is None
    assert loop.calls()[0].output == "a\ufffdb"
    assert [text for _, text in loop.texts] == ["c\ufffdd", "Done."]


def test_an_id_that_the_api_uses_twice_replaces_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: type("Same", (), {"hex": "0" * 32})())
    with FakeAnthropic([call("Bash", command="echo 1"), call("Bash", command="echo 2"), say("Done.")]) as fake:
        loop = make().start(fake).run()
    assert [one.output for one in loop.calls()] == ["1\n", "2\n"]


def test_the_key_is_nowhere_in_the_sandbox_and_in_no_event(make: Make) -> None:
    look = "env; cat /proc/self/environ /proc/self/cmdline /proc/$PPID/environ; ls -a ~; cat ~/.* 2>/dev/null"
    with FakeAnthropic([call("Bash", command=look), fault(401, message=f"not a key: {KEY}")]) as fake:
        loop = make().start(fake).run()
        assert fake.requests[0].headers["x-api-key"] == KEY
    assert "PATH=" in loop.calls()[0].output
    assert KEY not in f"{loop.events} {loop.failure}"
