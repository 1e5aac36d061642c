"""Options of other sources that users try here: what to do instead. Names in lower case."""

from __future__ import annotations

_NO_OFFSETS = (
    "a queue has no offsets: a query reads what is in it, from the oldest on. Remove the option"
)
_ACCOUNT = "the account is named by 'secret.connectionString', or by 'accountUrl'"
_NO_GROUPS = (
    "readers of a queue form no groups: each message goes to one of them. Remove the option"
)
_QUEUE = "name the queue in the option 'queue'"

_INSTEAD = {
    **dict.fromkeys(
        (
            *("startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"),
            *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
            *("startingposition", "startingversion", "auto.offset.reset"),
        ),
        _NO_OFFSETS,
    ),
    **dict.fromkeys(("subscribe", "assign", "topic"), _QUEUE),
    "subscribepattern": f"{_QUEUE}: it takes patterns such as orders-*",
    **dict.fromkeys(("groupid", "group.id", "groupidprefix", "kafka.group.id"), _NO_GROUPS),
    "kafka.bootstrap.servers": _ACCOUNT,
    "maxoffsetspertrigger": "the option for that is 'maxMessagesPerTrigger'",
    "includeheaders": "messages of a queue have no headers. Remove the option",
}


def instead_of(name: str) -> str | None:
    """What to do instead of an option of another source, None if the name is not known."""
    return _INSTEAD.get(name) or (_ACCOUNT if name.startswith("kafka.") else None)
