"""Bearer tokens: made for tests, and checked as far as a service without Entra can.

A text that is no JSON Web Token gets 400, as on the service (recorded). Audience and time are
checked, the signature is not: no test has an authority's key.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from . import denials

AUDIENCE = "https://storage.azure.com"
_HEADER = {"alg": "RS256", "typ": "JWT"}


def make(now: float, life: float = 3600.0, **claims: object) -> str:
    """A token that ends `life` seconds after `now`. claims: more of them, or others (`oid`, …)."""
    payload = {"aud": AUDIENCE, "iat": int(now), "nbf": int(now), "exp": int(now + life), **claims}
    return ".".join([_encoded(_HEADER), _encoded(payload), "c2lnbmVk"])


def check(token: str, now: float) -> dict[str, Any]:
    """Return the claims. Raises Refusal: 400 for no token, 401 for one that is not valid here."""
    parts = token.split(".")
    header, claims = (_decoded(part) for part in parts[:2]) if len(parts) == 3 else (None, None)
    if header is None or claims is None:
        raise denials.malformed()
    expires = claims.get("exp")
    if not isinstance(expires, (int, float)) or expires <= now:
        raise denials.token_refused("Lifetime validation failed. The token is expired.")
    if str(claims.get("aud", "")).rstrip("/") != AUDIENCE:
        raise denials.token_refused("Audience validation failed. Audience did not match.")
    return claims


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii").rstrip("=")


def _decoded(part: str) -> dict[str, Any] | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
