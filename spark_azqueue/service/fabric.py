"""Gets tokens in Microsoft Fabric from Fabric's module `notebookutils`.

Fabric documents `notebookutils.credentials.getToken(audience)` for notebooks and job definitions.
`getToken` returns the token as a string. The expiry is a claim in the token.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_azqueue.errors import AccessDenied, InvalidOption
from spark_azqueue.errors.conditions import Condition

from .policy import check_installed
from .redaction import shown

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken

_AUDIENCE = "storage"
_UNKNOWN_LIFE_S = 600
_LONGEST_TOKEN = 65_536
_LONGEST_REASON = 1_000


class FabricCredential:
    """A TokenCredential for Azure Storage: the identity that runs the notebook or job.

    Raises InvalidOption in a process that has no `notebookutils`.
    """

    def __init__(self) -> None:
        self._token = _get_token()

    def get_token(self, *_: str, **__: object) -> AccessToken:
        """Get a token from Fabric. Raises AccessDenied if Fabric returns no token."""
        from azure.core.credentials import AccessToken

        try:
            token = self._token(_AUDIENCE)
        except Exception as error:
            raise _refused(f"{type(error).__name__}: {shown(error, _LONGEST_REASON)}") from error
        if not isinstance(token, str) or not token:
            raise _refused(f"it gave a {type(token).__name__} without a token")
        return AccessToken(token, _end_of(token))


def _refused(reason: str) -> AccessDenied:
    return AccessDenied(
        f"Microsoft Fabric gave no token for Azure Storage ({reason}). Run the notebook or job as"
        " somebody who may sign in, or set credential=servicePrincipal: docs/fabric.md",
        condition=Condition.NO_TOKEN,
    )


def _get_token() -> Callable[[str], Any]:
    try:
        check_installed("notebookutils", "fabric")
        import notebookutils

        found: Callable[[str], Any] = notebookutils.credentials.getToken
    except InvalidOption:
        raise
    except Exception as error:
        raise InvalidOption(
            "credential=fabric works on Microsoft Fabric only, and this process has no"
            f" notebookutils.credentials ({type(error).__name__}: {shown(error, _LONGEST_REASON)})."
            " Elsewhere set another 'credential'; if this is Fabric, its module is not in the"
            " process of sources and sinks: set credential=servicePrincipal: docs/fabric.md",
            condition=Condition.INVALID_ACCOUNT,
        ) from error
    return found


def _end_of(token: str) -> int:
    """Return the expiry of this token in seconds since 1970. Without a readable claim, returns the
    time in 10 minutes.
    """
    try:
        _, claims, _ = token[:_LONGEST_TOKEN].split(".")
        end = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        if isinstance(end, int) and 0 < end < 2**53:
            return end
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return int(time.time()) + _UNKNOWN_LIFE_S
