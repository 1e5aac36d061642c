"""Checks queues: whether they exist, the permissions of the credential, and the encoding of bodies.

The checks change nothing. The checks peek, and send updates, deletes and puts that the service must
refuse. The error code of a refusal shows whether the credential has the permission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from spark_azqueue.errors import AccessDenied, AzQueueError, QueueNotFound, UndecodableBody
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import sink_config, source_config
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.account import Account
from spark_azqueue.service.encoding import BodyType, Encoding, decode, looks_like_base64
from spark_azqueue.service.messages import MAX_PER_REQUEST, Message, QueueRef
from spark_azqueue.service.queues.calls import Count, Delete
from spark_azqueue.service.queues.client import Queue, QueueClient
from spark_azqueue.service.queues.reach import unknown_lease
from spark_azqueue.service.retry import RetryPolicy

from .finding import Finding, advice_on, credential_in_words

_PATIENT = RetryPolicy(5.0)

_MOST_CHECKED = 20
"""Maximum number of queues that are checked for patterns."""


def examine(
    given: Mapping[str, str],
    side: Side,
    connect: Callable[[Account], QueueClient] = QueueClient,
) -> Iterator[Finding]:
    """Check the queues and the log that these options name, as a source or a sink would use them.

    given: options as for Spark. connect: makes the client of an account. Never raises: an error
    becomes a finding. No finding shows the value of a secret option.
    """
    config: SourceConfig | SinkConfig
    source: SourceConfig | None = None
    try:
        if side is Side.SINK:
            sink = sink_config(given)
            named = filter(None, [sink.queue_if_none_is_named])
            selection = QueueSelection(sink.account.name, tuple(named))
            config, kind = sink, BodyType.BINARY
        else:
            config = source = source_config(given)
            selection, kind = source.selection, source.body_type
    except AzQueueError as error:
        yield Finding(False, "the options do not work", advice_on(error))
        return
    account, queues = config.account, selection.named
    if not selection.parts:
        yield Finding(False, "no queue given", "pass a queue name to check it")
        return
    for doubt in source.doubts if source else ():
        yield Finding(None, doubt)
    yield Finding(
        True, f"account '{account.name}' at {account.url}, by {credential_in_words(account)}"
    )
    try:
        client = connect(account)
    except AzQueueError as error:  # the credentialProvider cannot be used
        yield Finding(False, "the credential does not work", advice_on(error))
        return
    try:
        if selection.patterns:
            found, finding = _matching(client, selection)
            yield finding
            queues += found[:_MOST_CHECKED]
        for queue in queues:
            if config.create_queue and not _is_there(client, queue):
                text = f"queue '{queue.name}' does not exist; createQueue=true would create it"
                yield Finding(None, text)
            else:
                yield from _queue(client, queue, config.encoding, kind, side)
    finally:
        client.close()
    if isinstance(config, SinkConfig) and config.transaction:
        from .transaction_checks import examine_transactions

        yield from examine_transactions(account, config.transaction)
    if source and source.write_ahead_log:
        from .log_checks import examine_log  # imported here, because most queries have no log

        yield from examine_log(source, source.write_ahead_log)


def _matching(
    client: QueueClient, selection: QueueSelection
) -> tuple[tuple[QueueRef, ...], Finding]:
    """Return the queues that only a pattern selects, and a finding about these queues."""
    patterns = selection.patterns_in_words
    try:
        names = _PATIENT(client.names, selection.prefix)
    except AzQueueError as error:
        return (), Finding(False, f"queues that match {patterns} are not known", advice_on(error))
    found = tuple(q for q in selection.among(names) if selection.comes_and_goes(q))
    if not found:
        advice = "check the pattern; the query waits for such queues, and looks every minute"
        return (), Finding(None, f"no queue matches {patterns} now", advice)
    listed = ", ".join(queue.name for queue in found[:_MOST_CHECKED])
    more = f", … (only {_MOST_CHECKED} are checked)" if len(found) > _MOST_CHECKED else ""
    return found, Finding(True, f"{len(found):,} queues match {patterns}: {listed}{more}")


def _is_there(client: QueueClient, ref: QueueRef) -> bool:
    """Return False if the service says that the queue does not exist."""
    try:
        _PATIENT(client.now, Count(ref))
    except QueueNotFound:
        return False
    except AzQueueError:
        pass  # the next checks report the error more precisely
    return True


def _queue(
    client: QueueClient, ref: QueueRef, encoding: Encoding, kind: BodyType, side: Side
) -> Iterator[Finding]:
    queue = client.queue(ref)
    asks: tuple[tuple[str, Side, Callable[[], object]], ...] = (
        ("update, which renews and releases leases", Side.SOURCE, queue.check),
        ("delete and dequeue", Side.SOURCE, lambda: client.now(Delete(unknown_lease(ref)))),
        ("put, which the sink does", Side.SINK, queue.check_put),
    )
    try:
        for what, needed_by, ask in asks:
            try:
                _PATIENT(ask)
            except AccessDenied as error:
                if error.condition is not Condition.PERMISSION_MISSING:
                    raise
                if needed_by & side:
                    yield Finding(False, f"queue '{ref.name}': may not {what}", advice_on(error))
                else:
                    yield Finding(None, f"queue '{ref.name}': may not {what}")
            else:
                yield Finding(True, f"queue '{ref.name}': may {what}")
        yield _count(client, ref)
        yield from _bodies(queue, encoding, kind)
    # without queue, account or access, every further check would report the same error
    except AzQueueError as error:
        yield Finding(False, f"queue '{ref.name}' cannot be used", advice_on(error))


def _count(client: QueueClient, ref: QueueRef) -> Finding:
    try:
        count = _PATIENT(client.now, Count(ref))
    except AccessDenied:
        text = f"queue '{ref.name}': may not count its messages"
        return Finding(None, text, "that takes the SAS letter 'r', and is not needed")
    return Finding(True, f"queue '{ref.name}': about {count:,} messages, invisible ones included")


def _bodies(queue: Queue, encoding: Encoding, kind: BodyType) -> Iterator[Finding]:
    try:
        messages = _PATIENT(queue.peek, MAX_PER_REQUEST)
    except AccessDenied:
        text = f"queue '{queue.ref.name}': may not peek, so bodies were not checked"
        yield Finding(None, text, "that takes the SAS letter 'r', and only a peek needs it")
        return
    yield judge_encoding(queue.ref.name, messages, encoding, kind)


def judge_encoding(
    queue: str, messages: Sequence[Message], encoding: Encoding, kind: BodyType
) -> Finding:
    """Check whether bodies decode with these options. The finding shows no body."""
    if not messages:
        return Finding(None, f"queue '{queue}': no visible message to check")
    subject = f"queue '{queue}': the first {len(messages)} visible messages"
    unfit = [
        (message, reason) for message in messages if (reason := _unfit(message, encoding, kind))
    ]
    if unfit:
        advice = "onUndecodable says what becomes of such messages"
        is_base64 = any(looks_like_base64(each.text, BodyType.BINARY) for each, _ in unfit)
        if encoding is Encoding.BASE64 and not is_base64:
            all_are = len(unfit) == len(messages)
            better = "none fits all of them" if all_are else "auto decodes what is base64"
            advice = f"messageEncoding={better}"
        return Finding(
            False,
            f"{subject}: {len(unfit)} do not fit messageEncoding={encoding.value}",
            f"{unfit[0][1]}. {advice}",
        )
    is_plain = encoding is Encoding.NONE
    texts = sum(_looks_encoded(message.text) for message in messages) if is_plain else 0
    if texts == len(messages):
        advice = "set messageEncoding=base64, unless your own code decodes them"
        return Finding(None, f"{subject} look like base64", advice)
    if texts:
        advice = "messageEncoding=auto decodes those, unless your own code does"
        return Finding(None, f"{subject}: {texts} look like base64", advice)
    return Finding(True, f"{subject} fit messageEncoding={encoding.value}")


def _unfit(message: Message, encoding: Encoding, kind: BodyType) -> str | None:
    if not message.intact:
        return f"message {message.message_id} holds a character that XML does not allow"
    try:
        decode(message.text, encoding, kind)
    except UndecodableBody as error:
        return f"message {message.message_id}: {error.sentence}"
    return None


def _looks_encoded(text: str) -> bool:
    """Return True for a base64 text of at least eight characters whose contents are text.

    Shorter texts are not considered, because a short word may look like base64.
    """
    return len(text) >= 8 and looks_like_base64(text, BodyType.STRING)
