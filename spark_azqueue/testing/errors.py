"""The service's refusals: one exception type, and one function for each error code.

Codes and texts: Queue Storage REST reference, "Queue service error codes" and "Common REST API
error codes"; the extra elements are those the service puts into the error body beside them.
"""

from __future__ import annotations

_SHOWN_AT_MOST = 100
_NAMES = (
    "a queue name has 3 to 63 lower-case letters, digits and single hyphens, and begins and ends"
    " with a letter or digit"
)


class Refusal(Exception):  # noqa: N818
    """A refused request: HTTP status, error code, message and details. It had no effect.

    `details` are (element, text) pairs of the error body, for example
    ("QueryParameterName", "popreceipt"). told: what a test wants to know besides, in `str` and in
    no answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: tuple[tuple[str, str], ...] = (),
        told: str = "",
    ) -> None:
        super().__init__(f"{status} {code}: {message}" + (f" ({told})" if told else ""))
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.told = told

    def __reduce__(self) -> tuple[type[Refusal], tuple[object, ...]]:
        # The default would call the class with the formatted text alone.
        return type(self), (self.status, self.code, self.message, self.details, self.told)


def invalid_parameter(name: str, value: object, reason: str) -> Refusal:
    """400 for an invalid value of a query parameter."""
    return Refusal(
        400,
        "InvalidQueryParameterValue",
        "Value for one of the query parameters specified in the request URI is invalid.",
        (
            ("QueryParameterName", name),
            ("QueryParameterValue", _shown(value)),
            ("Reason", reason),
        ),
        f"{name}={_shown(value)}: {reason}",
    )


def out_of_range(name: str, value: int, lowest: int, highest: int) -> Refusal:
    """400 for a number outside the range of a query parameter."""
    return Refusal(
        400,
        "OutOfRangeQueryParameterValue",
        "One of the query parameters specified in the request URI is outside the permissible "
        "range.",
        (
            ("QueryParameterName", name),
            ("QueryParameterValue", _shown(value)),
            ("MinimumAllowed", str(lowest)),
            ("MaximumAllowed", str(highest)),
        ),
        f"{name}={_shown(value)}; allowed: {lowest} to {highest}",
    )


def invalid_header(name: str, value: str) -> Refusal:
    """400 for an invalid header."""
    return Refusal(
        400,
        "InvalidHeaderValue",
        "The value for one of the HTTP headers is not in the correct format.",
        (("HeaderName", name), ("HeaderValue", _shown(value))),
    )


def duplicated_header() -> Refusal:
    """400 for a signed request that has one of its headers twice."""
    return Refusal(
        400, "InvalidHeaderValue", "A header of a signed request was specified more than once."
    )


def missing_header(name: str) -> Refusal:
    """400 for a missing header that is required."""
    return Refusal(
        400,
        "MissingRequiredHeader",
        "An HTTP header that's mandatory for this request is not specified.",
        (("HeaderName", name),),
    )


def invalid_uri() -> Refusal:
    """400 for a URL that cannot be that of a queue or a message."""
    return Refusal(
        400, "InvalidUri", "The requested URI does not represent any resource on the server."
    )


def unsupported_verb() -> Refusal:
    """405 for an operation that does not exist."""
    return Refusal(
        405, "UnsupportedHttpVerb", "The resource doesn't support the specified Http Verb."
    )


def missing_parameter(name: str) -> Refusal:
    """400 for a missing query parameter that is required."""
    return Refusal(
        400,
        "MissingRequiredQueryParameter",
        "A required query parameter was not specified for this request.",
        (("QueryParameterName", name),),
    )


def invalid_xml(line: int = 1, column: int = 1) -> Refusal:
    """400 for a body that is not the expected XML, or has characters that XML 1.0 forbids.

    line, column: where, counted from 1.
    """
    return Refusal(
        400,
        "InvalidXmlDocument",
        "XML specified is not syntactically valid.",
        (
            ("LineNumber", str(line)),
            ("LinePosition", str(column)),
            ("Reason", "Error parsing Xml content"),
        ),
    )


def body_too_large(limit: int) -> Refusal:
    """413 for a message above the size limit."""
    return Refusal(
        413,
        "RequestBodyTooLarge",
        "The request body is too large and exceeds the maximum permissible limit.",
        (("MaxLimit", str(limit)),),
    )


def message_not_found() -> Refusal:
    """404 for a message that is gone, and also for a stale receipt."""
    return Refusal(404, "MessageNotFound", "The specified message does not exist.")


def pop_receipt_mismatch() -> Refusal:
    """400 for a stale receipt: emulators send it, and the table of error codes lists it."""
    return Refusal(
        400,
        "PopReceiptMismatch",
        "The specified pop receipt did not match the pop receipt for a dequeued message.",
    )


def out_of_range_name(name: str = "") -> Refusal:
    """400 for a queue name of the wrong length."""
    told = f"{_shown(name)!r} has {len(name)} characters; {_NAMES}"
    return Refusal(400, "OutOfRangeInput", "One of the request inputs is out of range.", told=told)


def invalid_name(name: str = "") -> Refusal:
    """400 for a queue name with characters, or hyphens in places, that are not allowed.

    The service spells the text so (recorded).
    """
    return Refusal(
        400,
        "InvalidResourceName",
        "The specifed resource name contains invalid characters.",
        told=f"{_shown(name)!r}; {_NAMES}",
    )


def queue_not_found(name: str = "") -> Refusal:
    """404 for a queue that does not exist."""
    told = f"{name!r}; create_queue makes one" if name else ""
    return Refusal(404, "QueueNotFound", "The specified queue does not exist.", told=told)


def queue_being_deleted(name: str = "") -> Refusal:
    """409 for a queue that was deleted a moment ago."""
    told = repr(name) if name else ""
    return Refusal(409, "QueueBeingDeleted", "The specified queue is being deleted.", told=told)


def busy() -> Refusal:
    """503: the service asks the client to slow down."""
    return Refusal(503, "ServerBusy", "The server is busy.")


def too_many() -> Refusal:
    """429: the same, in the words of newer services and of gateways on the way."""
    return Refusal(429, "TooManyRequests", "Too many requests were received.")


def internal_error() -> Refusal:
    """500 for a bug in the fake itself."""
    return Refusal(
        500,
        "InternalError",
        "The server encountered an internal error. Please retry the request.",
    )


def timed_out() -> Refusal:
    """500: another way in which the service asks the client to slow down."""
    return Refusal(
        500,
        "OperationTimedOut",
        "Operation could not be completed within the specified time.",
    )


def _shown(value: object) -> str:
    """A value as text, cut if it is long. Python refuses numbers of more than 4,300 digits."""
    try:
        text = str(value)
    except ValueError:
        return "a number too long to show"
    return text if len(text) <= _SHOWN_AT_MOST else f"{text[:_SHOWN_AT_MOST]}…"
