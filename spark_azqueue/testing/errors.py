"""The refusals of the service, as one exception type, each made in one place.

Codes and texts: Queue Storage REST reference, "Queue service error codes" and "Common REST API
error codes"; the extra elements are those the service puts into the error body beside them.
"""

from __future__ import annotations


class ServiceError(Exception):
    """A request the service refuses: HTTP status, error code, one sentence, extra elements.

    `details` are (element, text) pairs of the error body, for instance
    ("QueryParameterName", "popreceipt"). Nothing took effect when this is raised.
    """

    def __init__(
        self, status: int, code: str, message: str, details: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[type[ServiceError], tuple[object, ...]]:
        # The default would call the class with the formatted text alone.
        return type(self), (self.status, self.code, self.message, self.details)


def invalid_parameter(name: str, value: object, reason: str) -> ServiceError:
    """400 for a query parameter whose value makes no sense."""
    return ServiceError(
        400,
        "InvalidQueryParameterValue",
        "Value for one of the query parameters specified in the request URI is invalid.",
        (
            ("QueryParameterName", name),
            ("QueryParameterValue", str(value)),
            ("Reason", reason),
        ),
    )


def out_of_range(name: str, value: int, lowest: int, highest: int) -> ServiceError:
    """400 for a number outside of what a query parameter may be."""
    return ServiceError(
        400,
        "OutOfRangeQueryParameterValue",
        "One of the query parameters specified in the request URI is outside the permissible "
        "range.",
        (
            ("QueryParameterName", name),
            ("QueryParameterValue", str(value)),
            ("MinimumAllowed", str(lowest)),
            ("MaximumAllowed", str(highest)),
        ),
    )


def missing_parameter(name: str) -> ServiceError:
    """400 for a query parameter that the operation cannot do without."""
    return ServiceError(
        400,
        "MissingRequiredQueryParameter",
        "A required query parameter was not specified for this request.",
        (("QueryParameterName", name),),
    )


def invalid_xml() -> ServiceError:
    """400 for a body that is not the XML asked for, or holds characters XML 1.0 forbids."""
    return ServiceError(400, "InvalidXmlDocument", "XML specified is not syntactically valid.")


def body_too_large(limit: int) -> ServiceError:
    """413 for a message above the size limit."""
    return ServiceError(
        413,
        "RequestBodyTooLarge",
        "The request body is too large and exceeds the maximum permissible limit.",
        (("MaxLimit", str(limit)),),
    )


def message_not_found() -> ServiceError:
    """404 for a message that is gone, and just the same for a receipt that is stale."""
    return ServiceError(404, "MessageNotFound", "The specified message does not exist.")


def pop_receipt_mismatch() -> ServiceError:
    """400 that the error table lists, and emulators send, for a stale receipt."""
    return ServiceError(
        400,
        "PopReceiptMismatch",
        "The specified pop receipt did not match the pop receipt for a dequeued message.",
    )


def queue_not_found() -> ServiceError:
    """404 for a queue that does not exist."""
    return ServiceError(404, "QueueNotFound", "The specified queue does not exist.")


def not_authenticated() -> ServiceError:
    """403 for a request without, or with unusable, credentials."""
    return ServiceError(
        403,
        "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of Authorization header "
        "is formed correctly including the signature.",
    )


def not_permitted() -> ServiceError:
    """403 for credentials that do not cover the operation."""
    return ServiceError(
        403,
        "AuthorizationPermissionMismatch",
        "This request is not authorized to perform this operation using this permission.",
    )


def token_refused() -> ServiceError:
    """401 for a bearer token that is expired or for somebody else."""
    return ServiceError(
        401,
        "InvalidAuthenticationInfo",
        "Server failed to authenticate the request. Please refer to the information in the "
        "www-authenticate header.",
    )


def busy() -> ServiceError:
    """503, the service's way to say "slower"."""
    return ServiceError(503, "ServerBusy", "The server is busy.")


def timed_out() -> ServiceError:
    """500, the service's other way to say "slower"."""
    return ServiceError(
        500,
        "OperationTimedOut",
        "Operation could not be completed within the specified time.",
    )
