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
        "Bearer abc.d-e_f",
        "Bearer eyJhIjogMX0.W10.c2ln",
    ],
)
def test_an_authorization_that_cannot_be_read_is_refused(metadata, header):
    headers = {"x-ms-version": VERSION, "x-ms-date": now(), "Authorization": header}
    assert refusal(metadata(headers)) == (400, "InvalidAuthenticationInfo")


def test_a_bearer_token_is_good_for_its_time_and_for_storage(metadata, service):
    def answer(**claims):
        token = service.token(**claims)
        return metadata({"x-ms-version": VERSION, "Authorization": f"Bearer {token}"})

    assert answer().status == 200
    assert answer(aud="https://storage.azure.com/").status == 200
    for refused in (answer(life=-1), answer(exp="soon"), answer(aud="https://vault.azure.net")):
        assert refusal(refused) == (401, "InvalidAuthenticationInfo")
        assert "authorization_uri=" in refused.headers["WWW-Authenticate"]
    assert "expired" in detail(answer(life=-1))


@pytest.mark.parametrize("version", [{}, {"x-ms-version": "2017-07-29"}])
def test_a_bearer_token_needs_a_version_that_knows_tokens(metadata, version):
    reply = metadata({"Authorization": "Bearer abc", **version})
    assert refusal(reply) == (403, "AuthenticationFailed")
    assert "not supported in this version" in detail(reply)


def test_nothing_at_all_is_refused(metadata):
    reply = metadata({"x-ms-version": VERSION})
    assert refusal(reply) == (401, "NoAuthenticationInformation")
    assert "authorization_uri=" in reply.headers["WWW-Authenticate"]
