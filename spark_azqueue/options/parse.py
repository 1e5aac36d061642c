"""All options: the table, the parser, and the configs of source and sink."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.account import Account
from spark_azqueue.service.redaction import looks_like_connection_string, shown

from .account import QUEUE, read_account
from .choices import Side
from .option import Option, ParsedOptions, options_of
from .replay import ReplayConfig, read_replay
from .sink_config import SinkConfig, read_sink
from .source_config import SourceConfig, read_source


def _declared() -> Iterator[Option]:
    """Yield each declared option once, with its side. Options of both sides come first."""
    source = (QUEUE, *options_of(SourceConfig), *options_of(ReplayConfig))
    sink = (QUEUE, *options_of(SinkConfig))
    found = [
        replace(option, side=option.side & _side_of(option in source, option in sink))
        for option in dict.fromkeys(source + sink)
    ]
    for side in (Side.BOTH, Side.SOURCE, Side.SINK):
        yield from (option for option in found if option.side is side)


def _side_of(source: bool, sink: bool) -> Side:
    return Side.BOTH if source and sink else Side.SOURCE if source else Side.SINK


OPTIONS = tuple(_declared())
_BY_LOWER_NAME = {option.name.lower(): option for option in OPTIONS}

# Options of Spark that Spark may pass to sources and sinks. These options are ignored.
_SPARKS_OWN = frozenset(
    {"checkpointlocation", "queryname", "outputmode", "triggerinterval", "partitionoverwritemode"}
    # Properties of a table: CREATE TABLE … USING azqueue.
    | {"provider", "owner", "comment", "external", "is_managed_location", "collation"}
)


_TABLES_COPY = "option."  # Spark passes each option of a table a second time, with this prefix

# Options of other sources that users may try with this source, in lower case, and what to use in
# their place.
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
            *("startingoffsets", "endingoffsets"),
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

_REMOVED = {
    "isolateafter": "with 'maxDequeueCount' the source chooses when to isolate. Remove the option",
    "onfailure": "'transactionLog' shows all messages of a write or none. Remove the option",
    **dict.fromkeys(
        ("receiveparallelism", "deleteparallelism", "sendparallelism"), "use 'parallelism'"
    ),
    "writeaheadlogretentiontime": "'writeAheadLogRetention' takes a time, too",
    **dict.fromkeys(("startingbatch", "startingtimestamp"), "use 'startingAt'"),
    **dict.fromkeys(("endingbatch", "endingtimestamp"), "use 'endingAt'"),
    "sasproviderargument": "write it behind the 'sasProvider': package.module:callable(text)",
    "credentialproviderargument": (
        "write it behind the 'credentialProvider': package.module:callable(text)"
    ),
    "connectionstring": "query plans would show it; use 'secret.connectionString'",
}
"""Options of earlier versions, in lower case, and what to do in their place."""


def source_config(
    given: Mapping[str, str] | ParsedOptions, environment: Mapping[str, str] = os.environ
) -> SourceConfig:
    """Make the config of a source (stream or peek) from its options. See `parse`. Sends no
    request.
    """
    return read_source(parse(given, Side.SOURCE), environment)


def source_configs(
    options: Mapping[str, object] | Sequence[Mapping[str, object]],
) -> list[SourceConfig]:
    """Return the configs of a query's sources. options: the options of the query's readers.

    Raises InvalidOption, and TypeError for values that cannot be options.
    """
    given: Any = [options] if isinstance(options, Mapping) else options
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not given or not all(isinstance(each, Mapping) for each in given):
        raise TypeError(
            "expected the options of the source as a dict, or a list of them if the query has"
            f" several sources, not {type(given).__name__}"
        )
    if not all(isinstance(name, str) for each in given for name in each):
        raise TypeError("expected names of options as text")
    return [source_config(as_texts(each)) for each in given]


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Convert options to texts, as Spark's reader does."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }


def replay_config(
    given: Mapping[str, str] | ParsedOptions, environment: Mapping[str, str] = os.environ
) -> ReplayConfig:
    """Make the config of a read of a log from its options. See `parse`. Sends no request."""
    return read_replay(parse(given, Side.SOURCE), environment)


def sink_config(
    given: Mapping[str, str] | ParsedOptions, environment: Mapping[str, str] = os.environ
) -> SinkConfig:
    """Make the config of a sink from its options. See `parse`. Sends no request."""
    return read_sink(parse(given, Side.SINK), environment)


def account_options(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> tuple[ParsedOptions, Account]:
    """Return the parsed options of a source or a sink, and the account that they name.

    Raises InvalidOption. Sends no request. The options may be for a source or for a sink, but not
    for both.
    """
    known = [_BY_LOWER_NAME.get(key.lower()) for key in given]
    is_for_the_sink = any(option and option.side is Side.SINK for option in known)
    parsed = parse(given, Side.SINK if is_for_the_sink else Side.SOURCE)
    return parsed, read_account(parsed, environment)


def parse(given: Mapping[str, str] | ParsedOptions, side: Side) -> ParsedOptions:
    """Parse options in the form in which Spark passes them. Parsed options are returned unchanged.

    Raises InvalidOption for an unknown name, an option of the other side, or a bad value. For an
    unknown name, the error suggests the nearest known name. For a bad value, the error has the
    rules, and never shows a secret.
    """
    if isinstance(given, ParsedOptions):
        for name in given.written:
            _check_side(_BY_LOWER_NAME[name.lower()], side)
        return given
    found = ParsedOptions({option.name: option.default for option in OPTIONS}, {})
    for key, value in given.items():
        lower = key.lower()
        if lower in _SPARKS_OWN or lower.startswith(_TABLES_COPY) or value is None:
            continue
        option = _BY_LOWER_NAME.get(lower)
        if option is None:
            raise InvalidOption(_unknown(lower, side))
        _check_side(option, side)
        text = found.written[option.name] = str(value)
        try:
            found[option.name] = option.parse(text)
        except InvalidOption as error:  # a policy forbids the value
            text = f"option '{option.name}': {error.sentence}"
            raise InvalidOption(text, condition=error.condition) from None
        except ValueError as error:
            raise InvalidOption(
                f"option '{option.name}': {_masked(text, option)} is not allowed; expected {error}"
            ) from None
    return found


def _check_side(option: Option, side: Side) -> None:
    if not option.side & side:
        here, other = ("sink", "source") if side is Side.SINK else ("source", "sink")
        raise InvalidOption(
            f"option '{option.name}' is for the {other}, not for the {here}; remove it"
        )


def _masked(value: str, option: Option) -> str:
    """Return a value that is not allowed, for an error. A value that may contain a secret is
    hidden."""
    if option.secret:
        return "its value (not shown)"
    if looks_like_connection_string(value):
        return (
            "its value (not shown) looks like a connection string, which the option"
            " 'secret.connectionString' takes; it"
        )
    return shown(repr(value))


def _unknown(lower: str, side: Side) -> str:
    if lower == "path":
        return "azqueue takes no path; name the queue with option 'queue'"
    kafkas = _ACCOUNT if lower.startswith("kafka.") else None
    if instead := (_INSTEAD | _REMOVED).get(lower, kafkas):
        return f"unknown option '{lower}': {instead}"
    names = [option.name for option in OPTIONS if option.side & side]
    begun = [name.lower() for name in names if name.lower().startswith(lower)]
    near = begun or difflib.get_close_matches(lower, [n.lower() for n in names], n=1, cutoff=0.7)
    meant = next((name for name in names if near and name.lower() == near[0]), None)
    rest = f"; did you mean '{meant}'?" if meant else f". Known options: {', '.join(names)}"
    return f"unknown option '{shown(lower)}'{rest}"
