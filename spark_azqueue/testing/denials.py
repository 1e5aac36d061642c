"""The refusals of a request that is not authenticated, or not permitted.

Codes and texts: REST reference, "Common REST API error codes" and "SAS error codes". As on the
service, 403 AuthenticationFailed gives the reason in `AuthenticationErrorDetail`.
"""

from __future__ import annotations

from .errors import Refusal

_NOT_AUTHORIZED = "This request is not authorized to perform this operation"


def not_authenticated(detail: str = "") -> Refusal:
    """403 for invalid credentials: a wrong signature, expired, incomplete."""
    return Refusal(
        403,
        "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of Authorization header "
        "is formed correctly including the signature.",
        (("AuthenticationErrorDetail", detail),) if detail else (),
    )


def nothing_given() -> Refusal:
    """401 for a request with neither an Authorization header nor a SAS."""
    return _unauthorized("NoAuthenticationInformation")


def token_refused(detail: str = "") -> Refusal:
    """401 for a bearer token that is expired or for another audience."""
    return _unauthorized("InvalidAuthenticationInfo", detail)


def malformed() -> Refusal:
    """400 for an Authorization header that cannot be read. As on the service, it says no more."""
    return Refusal(
        400,
        "InvalidAuthenticationInfo",
        "Authentication information is not given in the correct format. Check the value of "
        "Authorization header.",
    )


def not_permitted() -> Refusal:
    """403 for valid credentials that do not permit the operation."""
    return Refusal(
        403, "AuthorizationPermissionMismatch", f"{_NOT_AUTHORIZED} using this permission."
    )


def wrong_service() -> Refusal:
    """403 for an account SAS whose `ss` lacks q."""
    return Refusal(403, "AuthorizationServiceMismatch", f"{_NOT_AUTHORIZED} using this service.")


def wrong_resource_type() -> Refusal:
    """403 for an account SAS whose `srt` lacks the resource type of the request."""
    return Refusal(
        403, "AuthorizationResourceTypeMismatch", f"{_NOT_AUTHORIZED} using this resource type."
    )


def wrong_protocol() -> Refusal:
    """403 for a SAS that allows only https, sent over http."""
    return Refusal(403, "AuthorizationProtocolMismatch", f"{_NOT_AUTHORIZED} using this protocol.")


def wrong_address(address: str) -> Refusal:
    """403 for a SAS whose `sip` does not include the caller's address."""
    return Refusal(
        403,
        "AuthorizationSourceIPMismatch",
        f"{_NOT_AUTHORIZED} using this source IP {address}.",
    )


def not_for_a_sas() -> Refusal:
    """403 for an operation that a SAS for one queue cannot permit."""
    return Refusal(403, "AuthorizationFailure", f"{_NOT_AUTHORIZED}.")


def _unauthorized(code: str, detail: str = "") -> Refusal:
    return Refusal(
        401,
        code,
        "Server failed to authenticate the request. Please refer to the information in the "
        "www-authenticate header.",
        (("AuthenticationErrorDetail", detail),) if detail else (),
    )
