"""`read_new_files` with Hadoop's driver for abfs, against Azurite; its jars are those of Delta."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyspark
import pytest
from landing import Landing

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

JARS = Path(__file__).parents[2] / "jars" / ".".join(pyspark.__version__.split(".")[:2])
SCRIPT = Path(__file__).with_name("abfs_job.py")
NAMES = ["a.json", "in/two words.json", "x*[y]{z}?.json", "100%25 #1.json", "12:30.json"]


def test_files_of_a_container_are_read_by_hadoops_driver(
    azurite_connection_string: str, blobs: ContainerClient, tmp_path: Path
) -> None:
    if not (JARS / ".fetched").exists():
        missing = f"no jars in {JARS}: run `make test-delta`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from azure.storage.queue import QueueServiceClient

    name = blobs.container_name
    landing = Landing(tmp_path / "landing", blobs.url, name)
    for number, path in enumerate(NAMES):
        blobs.upload_blob(path, f'{{"id": {number}}}')
    blobs.upload_blob("broken.json", '{"id": ')
    blobs.upload_blob("_SUCCESS", "")
    blobs.upload_blob("in", "", metadata={"hdi_isfolder": "true"})  # as Hadoop and AzCopy mark it
    blobs.upload_blob("empty.json", "")
    with QueueServiceClient.from_connection_string(azurite_connection_string) as service:
        for queue in (name, f"{name}-bad"):
            service.create_queue(queue)
        for path in [*NAMES[:3], "broken.json", "gone.json", "in", "empty.json"]:
            service.get_queue_client(name).send_message(landing.event(path))
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-W", "ignore", str(SCRIPT), str(tmp_path)),
                    *(azurite_connection_string, name, urlsplit(blobs.url).netloc),
                ],
                env=os.environ
                | {
                    "JARS": str(JARS),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        finally:
            for queue in (name, f"{name}-bad"):
                service.delete_queue(queue)

    assert done.returncode == 0, done.stderr[-3000:]
    batches, bad = json.loads(done.stdout.splitlines()[-1])
    assert sorted(row for rows in batches for row in rows) == [*range(len(NAMES))]
    assert bad.pop("gone.json") == "the file is gone"
    assert bad.pop("broken.json").startswith("the file cannot be read as json: [FAILED_READ_FILE")
    assert bad == {}
