"""The refusals of the service: an exception, and a table of all refusals.

Codes and texts: Queue Storage REST reference, "Queue service error codes", "Common REST API error
codes" and "SAS error codes". The extra elements are the elements of the service's error body. As on
the service, 403 AuthenticationFailed gives the reason in `AuthenticationErrorDetail`.
"""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN_AT_MOST = 100
_NAMES = (
    "a queue name has 3 to 63 lower-case letters, digits and single hyphens, and begins and ends"
    " with a letter or digit"
)


class Refusal(Exception):  # noqa: N818
    """A refused request: HTTP status, error code, message and details. The request had no effect.

    `details` are (element, text) pairs of the error body, for example ("QueryParameterName",
    "popreceipt"). hint: a hint for the test; shown by `str`, not in answers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: tuple[tuple[str, str], ...] = (),
        hint: str = "",
    ) -> None:
        super().__init__(f"{status} {code}: {message}" + (f" ({hint})" if hint else ""))
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.hint = hint

    def __reduce__(self) -> tuple[type[Refusal], tuple[object, ...]]:
        # Without this method, unpickling would call the class with only the formatted text.
        return type(self), (self.status, self.code, self.message, self.details, self.hint)


@dataclass(frozen=True)
class _Row:
    """A row of the table. Calling the row with the texts of its elements makes the refusal."""

    status: int
    code: str
    message: str
    elements: tuple[str, ...] = ()

    def __call__(self, *texts: object, hint: str = "") -> Refusal:
        details = tuple(zip(self.elements, map(str, texts), strict=False))
        return Refusal(self.status, self.code, self.message, details, hint)


_PARAMETER = ("QueryParameterName", "QueryParameterValue")
_INVALID_PARAMETER = _Row(
    400,
    "InvalidQueryParameterValue",
    "Value for one of the query parameters specified in the request URI is invalid.",
    (*_PARAMETER, "Reason"),
)
_OUT_OF_RANGE = _Row(
    400,
    "OutOfRangeQueryParameterValue",
    "One of the query parameters specified in the request URI is outside the permissible range.",
    (*_PARAMETER, "MinimumAllowed", "MaximumAllowed"),
)
_INVALID_HEADER = _Row(
    400,
    "InvalidHeaderValue",
    "The value for one of the HTTP headers is not in the correct format.",
    ("HeaderName", "HeaderValue"),
)
duplicated_header = _Row(
    400, "InvalidHeaderValue", "A header of a signed request was specified more than once."
)
missing_header = _Row(
    400,
    "MissingRequiredHeader",
    "An HTTP header that's mandatory for this request is not specified.",
    ("HeaderName",),
)
missing_parameter = _Row(
    400,
    "MissingRequiredQueryParameter",
    "A required query parameter was not specified for this request.",
    ("QueryParameterName",),
)
invalid_uri = _Row(
    400, "InvalidUri", "The requested URI does not represent any resource on the server."
)
unsupported_verb = _Row(
    405, "UnsupportedHttpVerb", "The resource doesn't support the specified Http Verb."
)
resource_not_found = _Row(404, "ResourceNotFound", "The specified resource does not exist.")
_INVALID_XML = _Row(
    400,
    "InvalidXmlDocument",
    "XML specified is not syntactically valid.",
    ("LineNumber", "LinePosition", "Reason"),
)
invalid_metadata = _Row(400, "InvalidMetadata", "The metadata specified is invalid.", ("Name",))
body_too_large = _Row(
    413,
    "RequestBodyTooLarge",
    "The request body is too large and exceeds the maximum permissible limit.",
    ("MaxLimit",),
)
# The service also answers this for a stale receipt.
message_not_found = _Row(404, "MessageNotFound", "The specified message does not exist.")
# Emulators answer this for a stale receipt, and the table of error codes lists it.
pop_receipt_mismatch = _Row(
    400,
    "PopReceiptMismatch",
    "The specified pop receipt did not match the pop receipt for a dequeued message.",
)
_OUT_OF_RANGE_NAME = _Row(400, "OutOfRangeInput", "One of the request inputs is out of range.")
# The service's text has this spelling (recorded).
_INVALID_NAME = _Row(
    400, "InvalidResourceName", "The specifed resource name contains invalid characters."
)
queue_exists = _Row(409, "QueueAlreadyExists", "The specified queue already exists.")
queue_not_found = _Row(404, "QueueNotFound", "The specified queue does not exist.")
queue_being_deleted = _Row(409, "QueueBeingDeleted", "The specified queue is being deleted.")

# The service asks the client to slow down.
busy = _Row(503, "ServerBusy", "The server is busy.")
too_many = _Row(429, "TooManyRequests", "Too many requests were received.")
timed_out = _Row(
    500, "OperationTimedOut", "Operation could not be completed within the specified time."
)
# The answer if the fake itself has a bug.
internal_error = _Row(
    500, "InternalError", "The server encountered an internal error. Please retry the request."
)

_DETAIL = ("AuthenticationErrorDetail",)
_SEE_HEADER = (
    "Server failed to authenticate the request. Please refer to the information in the "
    "www-authenticate header."
)
_DENIED = "This request is not authorized to perform this operation"
not_authenticated = _Row(
    403,
    "AuthenticationFailed",
    "Server failed to authenticate the request. Make sure the value of Authorization header "
    "is formed correctly including the signature.",
    _DETAIL,
)
# The request has neither an Authorization header nor a SAS.
nothing_given = _Row(401, "NoAuthenticationInformation", _SEE_HEADER)
token_refused = _Row(401, "InvalidAuthenticationInfo", _SEE_HEADER, _DETAIL)
# The Authorization header is not readable. As on the service, the answer has no details.
malformed = _Row(
    400,
    "InvalidAuthenticationInfo",
    "Authentication information is not given in the correct format. Check the value of "
    "Authorization header.",
)
not_permitted = _Row(403, "AuthorizationPermissionMismatch", f"{_DENIED} using this permission.")
wrong_service = _Row(403, "AuthorizationServiceMismatch", f"{_DENIED} using this service.")
wrong_resource_type = _Row(
    403, "AuthorizationResourceTypeMismatch", f"{_DENIED} using this resource type."
)
wrong_protocol = _Row(403, "AuthorizationProtocolMismatch", f"{_DENIED} using this protocol.")
# The `sip` of the SAS does not include the caller's address.
wrong_address = _Row(
    403, "AuthorizationSourceIPMismatch", f"{_DENIED} using this source IP 127.0.0.1."
)
# A SAS for one queue cannot permit this operation.
not_for_a_sas = _Row(403, "AuthorizationFailure", f"{_DENIED}.")


def invalid_parameter(name: str, value: object, reason: str) -> Refusal:
    """Return 400 for an invalid value of a query parameter."""
    shown = _shown(value)
    return _INVALID_PARAMETER(name, shown, reason, hint=f"{name}={shown}: {reason}")


def out_of_range(name: str, value: int, lowest: int, highest: int) -> Refusal:
    """Return 400 for a number outside the range of a query parameter."""
    shown = _shown(value)
    hint = f"{name}={shown}; allowed: {lowest} to {highest}"
    return _OUT_OF_RANGE(name, shown, lowest, highest, hint=hint)


def invalid_header(name: str, value: str) -> Refusal:
    """Return 400 for an invalid header."""
    return _INVALID_HEADER(name, _shown(value))


def invalid_xml(line: int = 1, column: int = 1) -> Refusal:
    """Return 400 for a body that is not the expected XML. line, column: position of the fault, from
    1.
    """
    return _INVALID_XML(line, column, "Error parsing Xml content")


def out_of_range_name(name: str = "") -> Refusal:
    """Return 400 for a queue name of the wrong length."""
    return _OUT_OF_RANGE_NAME(hint=f"{_shown(name)!r} has {len(name)} characters; {_NAMES}")


def invalid_name(name: str = "") -> Refusal:
    """Return 400 for a queue name with forbidden characters, or misplaced hyphens."""
    return _INVALID_NAME(hint=f"{_shown(name)!r}; {_NAMES}")


def _shown(value: object) -> str:
    """Return a value as text. A long text is shortened.

    Python refuses to convert numbers of more than 4,300 digits.
    """
    try:
        text = str(value)
    except ValueError:
        return "a number too long to show"
    return text if len(text) <= _SHOWN_AT_MOST else f"{text[:_SHOWN_AT_MOST]}…"
