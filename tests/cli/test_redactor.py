"""A secret that was met once is never shown, wherever it turns up."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.cli.secrets import STARS, RedactedStream, SecretRedactor, is_secret


@pytest.mark.parametrize(
    "name",
    ["password", "token", "secret_access_key", "session_token", "PGPASSWORD", "sasl.password"],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert SecretRedactor().redact_value(name, "abc") == STARS


@pytest.mark.parametrize("name", ["key", "keys", "path", "passed_on", "secretary", "tokens"])
def test_names_that_are_not_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "nats://me:hunter2@h:4222",
        "nats://hunter2@h:4222",
        "postgresql://me:hunter2@h/db",
        "postgresql://h/db?user=me&password=hunter2",
        "host=h user=me password=hunter2",
        "host=h password='hunter2' user=me",
        "nats://me:hunter2@a:1,nats://me:hunter2@b:2",
        "redis://:hunter2@h",
    ],
)
def test_credentials_are_found_in_addresses(text: str) -> None:
    redactor = SecretRedactor()
    redactor.collect("url", text)
    assert "hunter2" not in redactor.redact(text)
    assert "hunter2" not in redactor.redact("server said: no hunter2")


def test_both_forms_of_a_quoted_password_are_redacted() -> None:
    redactor = SecretRedactor()
    redactor.collect("url", "nats://me:p%40ss%2Fword@h")
    assert redactor.redact("p@ss/word p%40ss%2Fword") == f"{STARS} {STARS}"


def test_secrets_in_nested_settings_are_redacted() -> None:
    redactor = SecretRedactor()
    settings = {"options": {"sasl.password": "hunter2"}, "list": [{"token": "abcdef"}]}
    redactor.collect("source", settings)
    assert redactor.redact("hunter2 abcdef") == f"{STARS} {STARS}"
    assert redactor.redact_value("source", settings) == {
        "options": {"sasl.password": STARS},
        "list": [{"token": STARS}],
    }


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=6), st.text())
def test_a_redacted_stream_writes_no_secret(secret: str, around: str) -> None:
    below, redactor = io.StringIO(), SecretRedactor({"MY_PASSWORD": secret})
    RedactedStream(below, redactor).write(f"{around}{secret}{around}")
    assert secret not in below.getvalue()


def test_common_words_are_not_redacted() -> None:
    redactor = SecretRedactor({"PGPASSWORD": "postgres"})
    assert redactor.redact("the postgres sink") == "the postgres sink"
