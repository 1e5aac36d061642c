"""The doctor in common situations; its example in docs/commands.md is what it says today.

`AZQUEUE_WRITE_EXAMPLES=1` writes the example anew. Ids may differ.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient
from refs import ref
from segments import a_message

from spark_azqueue.options.account import read_account
from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.service.account import API_VERSION
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
WRONG_KEY = "d3Jvbmcga2V5"
MASKS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
]


@pytest.fixture
def orders(azurite_connection_string):
    with QueueClient.from_connection_string(
        azurite_connection_string, "orders", api_version=API_VERSION
    ) as client:
        client.create_queue()
        for number in range(3):
            client.send_message(f'{{"order": {number}}}')
        yield azurite_connection_string
        client.delete_queue()


@pytest.fixture
def logs(azurite_connection_string):
    """The container `logs` with the log of a query of `orders`, and that of one of `returns`."""
    account = read_account({"secret.connectionString": azurite_connection_string}, {})
    with ContainerClient.from_connection_string(
        azurite_connection_string, "logs", api_version=API_VERSION
    ) as client:
        client.create_container()
        for name in ("orders", "returns"):
            store = BlobFolder(read_blob_account({}, account), "logs", name)
            log = WriteAheadLog(store, account.name, 10)
            log.open()
            log.claim(0)
            queue = ref(name, account.name)
            for batch in range(3):
                messages = [a_message(32 * batch + n, queue=queue) for n in range(32)]
                progress = LogProgress(committed=batch, done=batch)
                log.put(Contents(messages, (32,), None, (queue,), {}), progress)
            log.close()
        yield
        client.delete_container()


ENCODING = "orders --option messageEncoding=base64"
LOG = "--option writeAheadLog=blob:logs"
EXAMPLES = {
    "A good queue": ("orders", "All is well."),
    "A queue that does not exist": ("ordres", "[AZQUEUE_QUEUE_NOT_FOUND]"),
    "A wrong key": ("orders", "[AZQUEUE_ACCESS_DENIED]"),
    "A write-ahead log": (f"orders {LOG}/orders", "committed up to batch 2"),
    "The log of another query": (f"orders {LOG}/returns", "names none of them"),
    "A wrong encoding": (ENCODING, "3 do not fit messageEncoding=base64"),
    "No Java": ("orders", "BAD  Java: none on the path"),
}


def said(title, text, empty):
    environment = {
        **os.environ,
        "AZURE_STORAGE_CONNECTION_STRING": text,
        "PYSPARK_PYTHON": sys.executable,
    }
    if title == "A wrong key":
        wrong = re.sub("AccountKey=[^;]+", f"AccountKey={WRONG_KEY}", text)
        environment["AZURE_STORAGE_CONNECTION_STRING"] = wrong
    if title == "No Java":
        environment["PATH"] = str(empty)
        environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "spark_azqueue", *EXAMPLES[title][0].split()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    key = re.search("AccountKey=([^;]+)", text)[1]
    assert key not in done.stdout + done.stderr
    assert WRONG_KEY not in done.stdout + done.stderr
    return done


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("title", EXAMPLES)
def test_the_doctor_says_what_is_wrong(title, orders, tmp_path):
    command, words = EXAMPLES[title]
    done = said(title, orders, tmp_path)

    bad = done.stdout.count("\nBAD  ")
    assert words in done.stdout
    assert done.returncode == bad == (title not in ("A good queue", "A write-ahead log"))
    if command != ENCODING:
        return
    shown = f"$ python -m spark_azqueue {command}\n…\n{done.stdout[done.stdout.index('BAD  ') :]}"
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("AZQUEUE_WRITE_EXAMPLES"):
        PAGE.write_text(BLOCK.sub(lambda m: m[1] + shown + m[3], page), encoding="utf-8")
    else:
        on_page = BLOCK.search(page)[2]  # a long line is wrapped there
        assert masked(on_page).split() == masked(shown).split()


BLOCK = re.compile(r"^(```\n)(\$ python -m spark_azqueue .*?\n)(```\n)", re.DOTALL | re.MULTILINE)


def masked(text):
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text
