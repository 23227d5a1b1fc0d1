"""What a recorded tool answers, and which calls get which answer: the entries of `sandbox.record_cli`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from .base import Finding, Location, WholeModel, problem, raise_findings
from .cli_models import CliMatch
from .fields import AtLeastOne, ExitStatus, HostPath, Number, OutputText, awaits_row, path_error
from .option_models import DeclaredFlags, Options, declared_flags, option_findings, option_names
from .reply_texts import is_template, json_findings, key_findings, template_findings, texts_in, values_in, without_notes
from .rule_order import covered
from .tool_names import refusal

LONGEST_DELAY = 3600
Delay = Annotated[Number, Field(ge=0, le=LONGEST_DELAY)]
STDOUT_KEYS = ("stdout", "stdout_file", "json_value", "json_file")
STDERR_KEYS = ("stderr", "stderr_file")
FILE_KEYS = ("stdout_file", "stderr_file", "json_file")


def _handler(text: str, info: ValidationInfo) -> str:
    if awaits_row(text, info):
        return text
    place, colon, function = text.rpartition(":")
    if place.endswith(".py"):
        usable = bool(place.removesuffix(".py").strip("/ "))
    else:
        usable = all(part.isidentifier() for part in place.split(".")) if colon else True
    if not usable or not function.isidentifier() or "\0" in text:
        raise problem("expected file.py:function, module:function, or the name of a fixture or function in conftest.py")
    return text


Handler = Annotated[str, AfterValidator(_handler)]


class AsWritten(WholeModel):
    """A mapping whose keys are told from its attributes, and which is dumped with the keys that were given alone."""

    model_config = ConfigDict(populate_by_name=False)

    @model_serializer(mode="wrap")
    def _given_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data = handler(self)
        keys = {name: field.alias or name for name, field in type(self).model_fields.items() if self.given(name)}
        return {key: data[key] if key in data else data[name] for name, key in keys.items() if {name, key} & set(data)}


class Effect(AsWritten):
    """Something done in the workspace before the reply."""

    target: ClassVar[str]
    """The key with the place in the workspace."""

    def texts(self) -> Iterator[tuple[Location, str]]:
        """The texts that `template: true` makes templates."""
        yield (self.target,), self.place

    @property
    def place(self) -> str:
        """The path in the workspace as the author wrote it."""
        return str(getattr(self, self.target))


class WriteEffect(Effect):
    """Writes a file into the workspace; its text stands here, or in a file beside the task."""

    target = "write"

    write: OutputText
    content: str | None = None
    content_file: HostPath | None = None

    @model_validator(mode="after")
    def _check(self) -> WriteEffect:
        if (self.content is None) == (self.content_file is None):
            raise_findings("WriteEffect", [Finding((), "expected either content or content_file")])
        return self

    def texts(self) -> Iterator[tuple[Location, str]]:
        yield from super().texts()
        if self.content is not None:
            yield ("content",), self.content


class CopyEffect(Effect):
    """Copies a file or folder from beside the task into the workspace."""

    target = "to"

    copy_from: HostPath = Field(alias="copy")
    to: OutputText


def _parse_effect(value: Any, info: ValidationInfo) -> Effect:
    if isinstance(value, Effect):
        return value
    if not isinstance(value, Mapping) or ("write" in value) == ("copy" in value):
        raise problem("expected a mapping with either write or copy")
    model: type[Effect] = WriteEffect if "write" in value else CopyEffect
    return model.model_validate(value, context=info.context)


AnyEffect = Annotated[
    SerializeAsAny[Effect], PlainValidator(_parse_effect, json_schema_input_type=WriteEffect | CopyEffect)
]


class ReplyModel(AsWritten):
    """One answer: what is printed, the exit status, and what happens before. `delay` is in seconds.

    Each of a `sequence` answers one call, the last one again and again. `json_value` is the key `json`, and `has_json`
    tells whether it was given, for null is a value. In `set_state` None removes.
    """

    beside_handler: ClassVar[frozenset[str]] = frozenset()
    """The keys that may stand beside `handler`; all others exclude it."""

    exit_code: ExitStatus = 0
    stdout: OutputText = ""
    stderr: OutputText = ""
    stdout_file: HostPath | None = None
    stderr_file: HostPath | None = None
    json_value: Any = Field(default=None, alias="json")
    json_file: HostPath | None = None
    delay: Delay = 0.0
    template: bool = False
    sequence: Annotated[tuple[ReplyModel, ...], AtLeastOne] | None = None
    set_state: dict[str, OutputText | None] = Field(default_factory=dict)
    effects: tuple[AnyEffect, ...] = ()
    passthrough: bool = False
    handler: Handler | None = None

    @property
    def has_json(self) -> bool:
        """Whether `json` was given, be it as null."""
        return self.given("json_value")

    def replies(self) -> Iterator[tuple[Location, ReplyModel]]:
        """This reply and those of its sequence, each with its place."""
        yield (), self
        for index, reply in enumerate(self.sequence or ()):
            yield ("sequence", index), reply

    def runs_program(self) -> bool:
        """Whether the real program may answer."""
        return any(reply.passthrough or reply.handler is not None for _, reply in self.replies())

    def may_pass_on(self) -> bool:
        """Whether this may leave a call to whatever comes later."""
        return any(reply.handler is not None for _, reply in self.replies())

    def texts(self) -> Iterator[tuple[Location, str]]:
        """The texts that `template: true` makes templates, each with its place; those of files are not among them."""
        yield ("stdout",), self.stdout
        yield ("stderr",), self.stderr
        yield from texts_in(without_notes(self.json_value), ("json",))
        for name, value in self.set_state.items():
            if value is not None:
                yield ("set_state", name), value
        for index, effect in enumerate(self.effects):
            for place, text in effect.texts():
                yield ("effects", index, *place), text

    def warnings(self) -> Iterator[Finding]:
        """Texts that look like templates, but are printed as they stand; one for each key of a reply."""
        for place, reply in self.replies():
            if reply.given("template"):
                continue
            marked = {inner[0]: inner for inner, text in reply.texts() if values_in(text)}
            for inner in marked.values():
                message = "this looks like a template, but is none: expected template: true (or false) beside it"
                yield Finding((*place, *inner), message)

    @model_validator(mode="after")
    def _check_reply(self, info: ValidationInfo) -> Self:
        found = [*self._exclusions(), *json_findings(self.json_value), *self._effect_findings(info)]
        for index, reply in enumerate(self.sequence or ()):
            if reply.sequence is not None:
                found.append(Finding(("sequence", index, "sequence"), "no sequence in a sequence"))
        if self.template and not found:
            found.extend(template_findings(self.texts(), info))
            found.extend(key_findings(self.json_value, ("json",)))
            found.extend(key_findings(self.set_state, ("set_state",)))
        raise_findings(type(self).__name__, found, self.__dict__)
        return self

    def _written(self, *names: str) -> list[str]:
        """The keys among `names` that were given and say something, as authors write them."""
        fields = type(self).model_fields
        return [fields[n].alias or n for n in names if self.given(n) and (n != "passthrough" or self.passthrough)]

    def _exclusions(self) -> Iterator[Finding]:
        for keys in (STDOUT_KEYS, STDERR_KEYS):
            first, *others = self._written(*keys) or [""]
            for other in others:
                yield Finding((other,), f"{first} and {other} exclude each other")
        printing = ("exit_code", *STDOUT_KEYS, *STDERR_KEYS, "template", "set_state", "effects")
        alone: list[tuple[str, tuple[str, ...]]] = [
            ("sequence", (*printing, "delay", "passthrough", "handler")),
            ("passthrough", (*printing, "handler")),
            ("handler", (*printing, "delay")),
        ]
        for name, excluded in alone:
            if not getattr(self, name):
                continue
            allowed = self.beside_handler
            others = self._written(*(key for key in excluded if not {name, key} & {"handler"} or key not in allowed))
            for other in others:
                yield Finding((other,), f"{name} and {other} exclude each other")
            if others:
                return

    def _effect_findings(self, info: ValidationInfo) -> Iterator[Finding]:
        for index, effect in enumerate(self.effects):
            place = ("effects", index, effect.target)
            if isinstance(effect, CopyEffect) and self.template and is_template(effect.copy_from):
                yield Finding(("effects", index, "copy"), "what is copied is chosen by the author, not by a template")
            if awaits_row(effect.place, info) or (self.template and is_template(effect.place)):
                continue
            if is_template(effect.place):
                yield Finding(place, "this is a template, but the reply is not: expected template: true beside it")
            elif error := path_error(effect.place):
                yield Finding(place, error)
            elif isinstance(effect, WriteEffect) and not effect.place.replace("\\", "/").strip("./"):
                yield Finding(place, "the path names the workspace itself; expected a file inside it")


def reply_keys() -> tuple[str, ...]:
    """The keys of a reply that name files beside the task."""
    return (*FILE_KEYS, "content_file", "copy")


class CliResponse(ReplyModel):
    """What a recorded tool answers to the calls that `when` matches."""

    when: CliMatch


def _paths(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class RecordedTool(ReplyModel):
    """A tool that is shadowed by a recording stand-in. Rules answer first, then tables, handler and cassette.

    What answers when none of them does is the reply that this entry itself describes, whose `exit_code` is 1 unless
    given. `unmatched` says what such a call means.
    """

    beside_handler = frozenset(ReplyModel.model_fields)

    tool: str
    exit_code: ExitStatus = 1
    options: Options = Field(default_factory=dict)
    responses: tuple[CliResponse, ...] = ()
    responses_from: Annotated[
        tuple[HostPath, ...], BeforeValidator(_paths, json_schema_input_type=str | tuple[str, ...]), AtLeastOne
    ] = ()
    record_to: HostPath | None = None
    replay_from: HostPath | None = None
    unmatched: Literal["reply", "fail", "error"] = "reply"

    def option_names(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Each declared flag's names, without dashes, its key first, and how many arguments follow it."""
        return option_names(self.options)

    def declared(self) -> DeclaredFlags:
        """The declared flags."""
        return declared_flags(self.tool, self.options)

    def warnings(self) -> Iterator[Finding]:
        yield from super().warnings()
        for place, message in rule_warnings(self.responses, self.tool):
            yield Finding(("responses", *place), message)

    @field_validator("tool")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if reason := refusal(name):
            raise problem(f"cannot record this tool: {reason}")
        return name

    @model_validator(mode="after")
    def _check_tool(self) -> Self:
        found = [Finding(("options", *place), message) for place, message in option_findings(self.options)]
        found += [
            Finding(("responses", *place), message) for place, message in rule_findings(self.responses, self.declared())
        ]
        raise_findings("RecordedTool", [*found, *self._unmatched_findings()], self.__dict__)
        return self

    def _unmatched_findings(self) -> Iterator[Finding]:
        if self.unmatched == "reply":
            return
        if self.passthrough:
            yield Finding(
                ("unmatched",), f"{self.unmatched} and passthrough exclude each other: every call is answered"
            )
        elif not (self.responses or self.responses_from or self.handler or self.replay_from):
            message = "there is nothing to match: expected responses, responses_from, handler or replay_from beside it"
            yield Finding(("unmatched",), message)


def rule_findings(responses: tuple[CliResponse, ...], declared: DeclaredFlags) -> Iterator[Finding]:
    """What is wrong with the rules of one list of a tool; locations start at the number of the rule."""
    if declared:
        for index, response in enumerate(responses):
            for place, message in response.when.declared_findings(declared):
                yield Finding((index, "when", *place), message)
    matches = [None if response.may_pass_on() else response.when for response in responses]
    for rule, earlier in covered(matches, declared):
        yield Finding((rule, "when"), f"never reached: responses[{earlier}] answers all of these calls")


def rule_warnings(responses: tuple[CliResponse, ...], tool: str) -> Iterator[Finding]:
    """What is doubtful about the rules of one list of a tool; locations start at the number of the rule."""
    for index, response in enumerate(responses):
        for place, message in response.when.verb_warnings(tool):
            yield Finding((index, "when", *place), message)
        for place, message in response.warnings():
            yield Finding((index, *place), message)
