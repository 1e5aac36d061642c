"""No key, signature or token stays in a text for people."""

from __future__ import annotations

import base64

import pytest

from spark_azqueue.service.redaction import hide_secrets, looks_like_connection_string, shown

KEY = base64.b64encode(bytes(range(64))).decode()
SIGNATURE = "aBcD1234+x/y="
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJzdG9yYWdlIn0.c2lnbmVk"


@pytest.mark.parametrize(
    "text",
    [
        "AccountName=shop;AccountKey={key};EndpointSuffix=core.windows.net",
        "accountkey = {key}",
        "AccountKey\t=\n{key}",
        "AccountKey=={key}",
        "AccountKey%3D{key}",
        '{{"AccountKey": "{key}", "a": 1}}',
        "the key {key} alone",
        "Endpoint=sb://a;SharedAccessKey={key}",
        "SharedAccessSignature=sv=2021-12-02&sp=r&sig={signature}",
        "https://shop.queue.core.windows.net/a?sv=1&sig={signature}&sp=r",
        "url=https%3A%2F%2Fshop%2Fa%3Fsv%3D1%26sig%3D{signature}",
        "twice%253Fsig%253D{signature}",
        "Authorization: Bearer {token}",
        "authorization: bearer {token}",
        "a token by itself: {token}",
        "Authorization: SharedKey shop:{signature}",
        "SharedKeyLite shop:{signature}",
        "https://user:{signature}@shop",
    ],
)
def test_a_secret_is_hidden(text: str) -> None:
    given = text.format(key=KEY, signature=SIGNATURE, token=TOKEN)

    said = shown(given, 1000)

    for secret in (KEY, SIGNATURE.rstrip("="), *TOKEN.split(".")):
        assert secret not in said
    assert "…" in said


@pytest.mark.parametrize(
    "text",
    [
        "the answer asks for Bearer authorization_uri=https://login.example",
        "AccountName=shop is not enough",
        "orders-eu",
        "0123456789abcdef" * 4,
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


@pytest.mark.parametrize("part", ["://", "eyJ-", "eyJabcdefgh-", "https://a:b"])
def test_a_text_with_many_beginnings_of_secrets_is_read_once(part: str) -> None:
    # If each beginning were followed to the end of the text, this would take hours.
    assert hide_secrets(text := part * 300_000) == text
    assert shown(text, len(text)) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={KEY}", True),
        ("orders,accountkey = x", True),
        ("UseDevelopmentStorage=true", True),
        ("QueueEndpoint=https://q;SharedAccessSignature=sp=p", True),
        ("orders-*", False),
        ("the account key", False),
    ],
)
def test_a_connection_string_is_recognised(text: str, found: bool) -> None:
    assert looks_like_connection_string(text) is found
