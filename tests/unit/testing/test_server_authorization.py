"""The fake service: no credentials, and those that it cannot read."""

import pytest
from fake_calls import VERSION, detail, refusal
from fake_signing import now


@pytest.mark.parametrize(
    "header",
    [
        "",
        "SharedKey",
        "SharedKey fakeaccount",
        "SharedKey fakeaccount:",
        "SharedKey :abc",
        "sharedkey fakeaccount:abc",
        "Basic dXNlcjpwdw==",
        "Bearer",
        "Bearer ",
        "Bearer two words",
        "Bearer \u00e9",
    ],
)
def test_an_authorization_that_cannot_be_read_is_refused(metadata, header):
    headers = {"x-ms-version": VERSION, "x-ms-date": now(), "Authorization": header}
    assert refusal(metadata(headers)) == (400, "InvalidAuthenticationInfo")


def test_a_bearer_token_is_looked_at_for_its_form_alone(metadata):
    assert metadata({"x-ms-version": VERSION, "Authorization": "Bearer abc.d-e_f"}).status == 200


@pytest.mark.parametrize("version", [{}, {"x-ms-version": "2017-07-29"}])
def test_a_bearer_token_needs_a_version_that_knows_tokens(metadata, version):
    reply = metadata({"Authorization": "Bearer abc", **version})
    assert refusal(reply) == (403, "AuthenticationFailed")
    assert "not supported in this version" in detail(reply)


def test_nothing_at_all_is_refused(metadata):
    reply = metadata({"x-ms-version": VERSION})
    assert refusal(reply) == (401, "NoAuthenticationInformation")
    assert "authorization_uri=" in reply.headers["WWW-Authenticate"]
