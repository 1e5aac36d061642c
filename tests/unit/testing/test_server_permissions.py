"""The fake service: what callers may do."""

import pytest
from fake_calls import message_xml


class TestAccess:
    def test_without_credentials(self, call):
        reply = call("GET", "/orders/messages", sas="")
        assert (reply.status, reply.headers["x-ms-error-code"]) == (
            401,
            "NoAuthenticationInformation",
        )

    def test_a_signature_in_the_address_will_do(self, call, service):
        assert call("GET", "/orders/messages", sas=service.sas("orders")).status == 200

    def test_revoked(self, call, service):
        service.revoked = True
        reply = call("GET", "/orders/messages")
        assert (reply.status, reply.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")
        service.revoked = False
        assert call("GET", "/orders/messages").status == 200

    @pytest.mark.parametrize(
        ("letter", "method", "path", "body", "status"),
        [
            ("r", "GET", "/orders/messages?peekonly=true", None, 200),
            ("r", "GET", "/orders?comp=metadata", None, 200),
            ("a", "POST", "/orders/messages", message_xml("x"), 201),
            ("u", "PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=0", None, 404),
            ("p", "GET", "/orders/messages", None, 200),
            ("p", "DELETE", "/orders/messages/x?popreceipt=AAAA", None, 404),
            ("c", "PUT", "/other", None, 201),
            ("w", "PUT", "/other", None, 201),
            ("w", "PUT", "/orders?comp=metadata", None, 204),
            ("d", "DELETE", "/orders", None, 204),
            ("d", "DELETE", "/orders/messages", None, 204),
            ("l", "GET", "?comp=list", None, 200),
        ],
    )
    def test_permissions(self, call, service, letter, method, path, body, status):
        service.permissions = service.permissions - set("cw" if letter in "cw" else letter)
        refused = call(method, path, body)
        assert (refused.status, refused.headers["x-ms-error-code"]) == (
            403,
            "AuthorizationPermissionMismatch",
        )
        service.permissions = letter
        assert call(method, path, body).status == status

    def test_unknown_permissions(self, service):
        with pytest.raises(ValueError, match="x"):
            service.permissions = "rx"
