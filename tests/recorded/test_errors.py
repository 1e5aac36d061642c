"""Each recorded refusal, byte for byte, to both planes: what it is taken for, and the advice."""

from __future__ import annotations

from collections import Counter

import pytest
from cassettes import Recorded, recorded
from feeding import Feeding

from spark_azqueue.errors import AccessDenied, Outcome, ServiceError
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.calls import LookAtContainer
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.calls import Delete, Dequeue
from spark_azqueue.service.queues.client import QueueClient

QUEUE = QueueRef("storagename", "orders")
LEASE = Lease(QUEUE, "fbe399c1-6b46-4ee5-844a-fae4739e75f4", "AgAAAAMAAAAAAAAAkxriZFuP1QE=")

OTHERS = Condition.SERVICE_ERROR, "HTTP "
ADVICE = {
    # By status and code, if that is more than the status and the code: condition, and a part of it.
    (400, "InvalidAuthenticationInfo"): (Condition.UNREADABLE_TOKEN, "cannot read the token"),
    (403, "AuthenticationFailed"): (Condition.ACCESS_DENIED, "does not accept this credential"),
    (403, "AuthorizationPermissionMismatch"): (Condition.PERMISSION_MISSING, "but this needs"),
    (404, "ContainerNotFound"): (Condition.CONTAINER_NOT_FOUND, "Create the container"),
    (404, "QueueNotFound"): (Condition.QUEUE_NOT_FOUND, "Create the queue"),
    (404, "ResourceNotFound"): (Condition.SERVICE_ERROR, "no such resource at this address"),
    (500, "InternalError"): (Condition.SERVICE_BUSY, "HTTP 500 InternalError"),
}
KNOWN = {
    (304, "CannotVerifyCopySource"), (304, "ConditionNotMet"), (400, "InvalidBlockList"),
    (400, "InvalidHeaderValue"), (400, "InvalidResourceName"), (400, "InvalidXmlDocument"),
    (400, "Md5Mismatch"), (400, "OutOfRangeInput"), (404, "BlobNotFound"),
    (409, "BlobAlreadyExists"), (409, "BlobUsesCustomerSpecifiedEncryption"),
    (409, "ContainerAlreadyExists"), (409, "LeaseAlreadyPresent"),
    (409, "LeaseNotPresentWithLeaseOperation"), (409, "NoPendingCopyOperation"),
    (409, "QueueAlreadyExists"), (409, "SnapshotsPresent"),
    (412, "AppendPositionConditionNotMet"), (412, "CannotVerifyCopySource"),
    (412, "ConditionNotMet"), (412, "LeaseIdMissing"), (412, "LeaseLost"),
    (412, "MaxBlobSizeConditionNotMet"), (412, "SequenceNumberConditionNotMet"),
    (413, "RequestBodyTooLarge"), (416, "InvalidRange"),
}  # fmt: skip
"""The other refusals in the recordings. No retry helps, and no advice but the code is given."""


def refusals() -> list[Recorded]:
    """Those with a body: an answer to HEAD does not say what it is."""
    everything = recorded("queue") + recorded("blob")
    return [each for each in everything if each.status >= 300 and each.method != "HEAD"]


def told(error: ServiceError, each: Recorded) -> str:
    """Check what holds for any of them, and return the code."""
    assert error.status == each.status
    assert error.code in (each.fields.get("x-ms-error-code"), "ResourceNotFound")
    assert error.retry_after is None, "no recorded answer asks for a pause"
    assert "sig=" not in str(error)
    assert "RequestId" not in str(error), "nothing of the document but its code"
    retried = each.status == 500
    assert (error.outcome is Outcome.RETRY) == retried
    assert error.may_have_taken_effect == retried
    assert isinstance(error, AccessDenied) == (
        each.status == 403 or error.code == "InvalidAuthenticationInfo"
    )
    return error.code


def advised(error: ServiceError) -> str:
    """What is wrong with the advice, if anything."""
    status_and_code = error.status, error.code
    if status_and_code not in ADVICE and status_and_code not in KNOWN:
        return f"new: {status_and_code}"
    condition, part = ADVICE.get(status_and_code, OTHERS)
    if error.condition is condition and part in str(error):
        return ""
    return f"{status_and_code}: {error}"


@pytest.mark.parametrize("call", [Dequeue(QUEUE, 1, 30), Delete(LEASE)], ids=["dequeue", "delete"])
def test_the_queues_plane_takes_each_refusal_for_what_it_is(call) -> None:
    codes: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with Feeding() as service:
        client = QueueClient(Account("storagename", service.url, sas="sv=1&sig=x"))
        for each in refusals():
            service.next(each)
            with pytest.raises(ServiceError) as caught:
                client.now(call)
            codes[told(caught.value, each)] += 1
            container_in_words = caught.value.code == "ContainerNotFound"  # advised by the blobs
            if not container_in_words and (problem := advised(caught.value)):
                wrong[problem] += 1
        client.close()

    assert wrong == {}
    assert codes.total() == len(refusals()) == 748
    assert codes["QueueNotFound"] == 20


def test_the_blobs_plane_takes_each_refusal_for_what_it_is() -> None:
    codes: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with Feeding() as service:
        account = Account("storagename", service.url, sas="sv=1&sig=x")
        container = Container(account, "logs", if_missing="Create the container")
        for each in refusals():
            service.next(each)
            with pytest.raises(ServiceError) as caught:
                container.once(LookAtContainer(container.ref))
            codes[told(caught.value, each)] += 1
            if problem := advised(caught.value):
                wrong[problem] += 1
        container.close()

    assert wrong == {}
    assert codes.total() == 748
    assert codes["ConditionNotMet"] == 310
