"""The examples in docs/doctor.md are what the doctor says today.

`AZQUEUE_WRITE_EXAMPLES=1` writes them anew. Versions, paths, ports and ids may differ. Later
examples name the lines that they share with the first, as in `… lines 1 to 9 of the first example`.
"""

import os
import re
import subprocess
import sys
from itertools import groupby
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

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
WRONG_KEY = "d3Jvbmcga2V5"
MASKS = [
    (re.compile(r"^ok +azure-storage-queue .*$", re.MULTILINE), "ok  LIBRARIES"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\(/[^)]*\)"), "(PATH)"),
    (re.compile(r"\d+(\.\d+)+"), "VERSION"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
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


FIRST = "A good queue"
EXAMPLES = {
    FIRST: ("orders", 0),
    "A queue that does not exist": ("ordres", 1),
    "A wrong key": ("orders", 1),
    "A write-ahead log": ("orders --option writeAheadLog=blob:logs/orders", 0),
    "The log of another query": ("orders --option writeAheadLog=blob:logs/returns", 1),
    "A wrong encoding": ("orders --option messageEncoding=base64", 1),
    "No Java": ("orders", 1),
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
def test_the_page_shows_what_the_doctor_says(title, orders, tmp_path):
    command, status = EXAMPLES[title]
    done = said(title, orders, tmp_path)
    assert done.returncode == status, done.stderr

    block = block_of(title)
    page = PAGE.read_text(encoding="utf-8")
    shown = f"$ python -m spark_azqueue {command}\n{done.stdout}"
    if title != FIRST:
        shown = without_lines_of(block_of(FIRST).search(page)[2], shown)
    if os.environ.get("AZQUEUE_WRITE_EXAMPLES"):
        public = re.sub(r"\(/[^)]*/(python|java)[^)]*\)", r"(/usr/bin/\1)", shown)
        public = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:10001", public)
        PAGE.write_text(block.sub(lambda m: m[1] + public + m[3], page), encoding="utf-8")
        return
    assert masked(block.search(page)[2]) == masked(shown)


def block_of(title):
    return re.compile(rf"(### {title}\n\n```\n)(.*?)(```\n)", re.DOTALL)


def without_lines_of(first, shown):
    """What is shown, with the numbers of those lines that the first example has, too."""
    number_of = {line: at for at, line in enumerate(masked(first).splitlines()) if line and at}
    lines = list(zip(shown.splitlines(), masked(shown).splitlines(), strict=True))

    def run(each):
        """The same for lines that follow each other in both; None for a line of its own."""
        at = number_of.get(each[1][1])
        return None if at is None else at - each[0]

    kept = []
    for offset, group in groupby(enumerate(lines), run):
        found = list(group)
        if offset is None or len(found) == 1:
            kept += [line for _, (line, _) in found]
        else:
            low, high = found[0][0] + offset, found[-1][0] + offset
            kept.append(f"… lines {low} to {high} of the first example")
    return "".join(f"{line}\n" for line in kept)


def masked(text):
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text
