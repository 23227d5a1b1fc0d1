"""Secrets do not show, in whatever way they are written; ordinary text stays."""

from __future__ import annotations

import base64
import html
import json
import secrets
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_codereval import redaction
from pytest_codereval.redaction import SHOWN, hide, hide_secrets_of, redact, redact_bytes


@pytest.fixture(autouse=True)
def _no_secrets_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", frozenset())
    monkeypatch.setattr(redaction, "_texts", ())
    monkeypatch.setattr(redaction, "_data", ())


def fresh(prefix: str = "") -> str:
    return prefix + secrets.token_hex(12)


def basic(user: str) -> Callable[[str], str]:
    return lambda secret: base64.b64encode(f"{user}:{secret}".encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "json": json.dumps,
    "json in json": lambda secret: json.dumps(json.dumps({"key": secret})),
    "json with escaped slashes": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "json, not ascii": lambda secret: json.dumps(secret, ensure_ascii=False),
    "url": lambda secret: urllib.parse.quote(secret, safe=""),
    "url path": urllib.parse.quote,
    "url query": urllib.parse.quote_plus,
    "html": html.escape,
    "basic, no user": basic(""),
    "basic, one letter": basic("u"),
    "basic, two letters": basic("us"),
    "basic, long user": basic("somebody@example.org"),
    "url-safe base64": lambda secret: base64.urlsafe_b64encode(b"user:" + secret.encode()).decode(),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS.keys())
@pytest.mark.parametrize("tail", ["", '/+&<"\\ä', "end of words"])
def test_a_secret_is_hidden_in_the_usual_encodings(encode: Callable[[str], str], tail: str) -> None:
    secret = fresh() + tail
    hide(secret)
    written = encode(secret)
    text = redact(f"before {written} after")
    assert SHOWN in text
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert len(text) <= len(f"before {encode('')} after") + len(SHOWN) + 4
    assert redact_bytes(f"before {written} after".encode()) == text.encode()


def test_base64_of_other_bytes_than_text_is_hidden() -> None:
    secret = secrets.token_bytes(24).decode("utf-8", "surrogateescape")
    hide(secret)
    data = secret.encode("utf-8", "surrogateescape")
    assert redact_bytes(b"<" + data + b">") == f"<{SHOWN}>".encode()
    assert SHOWN in redact(base64.b64encode(data).decode())


def test_the_longer_of_two_secrets_goes_first() -> None:
    short = fresh()
    longer = short + fresh("-and-more-")
    hide(short)
    hide(longer)
    assert redact(f"{longer} {short}") == f"{SHOWN} {SHOWN}"


def test_short_and_missing_values_hide_nothing() -> None:
    hide(None, "", "1234567", "  1234567 \n")
    assert redact("1234567") == "1234567"


def test_lines_of_a_private_key_are_hidden_one_by_one() -> None:
    lines = [secrets.token_hex(32), secrets.token_hex(32)]
    hide("-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END PRIVATE KEY-----\n")
    assert redact(f"-----BEGIN PRIVATE KEY-----\n> {lines[1]}") == f"-----BEGIN PRIVATE KEY-----\n> {SHOWN}"


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY_2",
        "GITHUB_TOKEN",
        "HF_TOKENS",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "CLIENT_SECRET",
        "secret_for_hooks",
        "DB_PASSWORD",
        "PASSWORD_OF_DB",
        "PGPASSWORD",
        "AZURE_CREDENTIALS",
        "apikey",
    ],
)
def test_variables_with_the_name_of_a_secret_are_hidden(name: str) -> None:
    secret = fresh()
    hide_secrets_of({name: f" {secret}\n"})
    assert redact(f"x{secret}x") == f"x{SHOWN}x"


@pytest.mark.parametrize(
    "name", ["PATH", "PWD", "TOKENIZERS_PARALLELISM", "KEYBOARD_LAYOUT", "SECRET_NAME", "TOKEN_FILE", "MONKEYS_HOME"]
)
def test_other_variables_are_not_hidden(name: str) -> None:
    value = fresh()
    hide_secrets_of({name: value})
    assert redact(value) == value


@pytest.mark.parametrize("value", ["Password", "postgres", "********", "xxxxxxxxxxxx", "1234567890", "17.25e"[:5] * 2])
def test_values_that_are_ordinary_text_are_not_hidden(value: str) -> None:
    hide_secrets_of({"DB_PASSWORD": value})
    assert redact(f"the {value} is") == f"the {value} is"


def test_the_path_of_a_file_is_no_secret(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.touch()
    hide_secrets_of({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
    assert redact(str(key)) == str(key)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=()), min_size=8), st.text(st.characters(exclude_categories=())))
def test_any_secret_in_any_text_is_hidden(secret: str, text: str) -> None:
    secret = secret.strip()
    if len(secret) < 8:
        return
    hide(secret)
    assert secret not in redact(text + secret + text) or secret in SHOWN


def test_ten_megabytes_are_redacted_within_the_time_of_a_test() -> None:
    wanted = [fresh("sk-") for _ in range(10)]
    hide(*wanted)
    text = "".join(f"{number} an ordinary line of a log, with {wanted[number % 10]}\n" for number in range(140_000))
    result = redact(text)
    assert result.count(SHOWN) == 140_000
