"""Services for the tests: the strict fake, Azurite where it can be had, and Spark."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from quick_jvm import QUICK_JVM

from spark_azqueue.testing import FakeQueueService

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient
    from pyspark.sql import SparkSession

# The same examples each time, on each machine: a failure is to mean a change. AZQUEUE_SEARCH asks
# for others, by chance or by --hypothesis-seed (see tools/random_search.py). None are kept in
# .hypothesis, so that no run depends on an earlier one. That a busy machine is slow is no failure.
PATIENT = {
    "print_blob": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("same", derandomize=True, **PATIENT)
hypothesis.settings.register_profile("search", derandomize=False, **PATIENT)
hypothesis.settings.load_profile("search" if os.environ.get("AZQUEUE_SEARCH") else "same")

REPOSITORY = Path(__file__).resolve().parent.parent

# A background job of a shell ignores Ctrl-C, and so would the processes that tests start and end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each Spark that a test starts, in this process or in one of its own, takes these.
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests that need Spark."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark-azqueue tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "60s")  # a test that failed is not to hang
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def fake() -> Iterator[FakeQueueService]:
    """A strict fake of the queue service, fresh for each test."""
    with FakeQueueService() as service:
        yield service


@pytest.fixture
def queue() -> str:
    """A queue name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def azurite_connection_string() -> Iterator[str]:
    """Azurite, with blobs: a running one by connection string, else a container, else a child."""
    if given := os.environ.get("AZQUEUE_TEST_CONNECTION_STRING"):
        yield given
        return
    container = _container()
    if container is not None:
        with container:
            yield container.get_connection_string()
        return
    from spark_azqueue.testing.azurite import Azurite, AzuriteUnavailable

    try:
        service = Azurite(REPOSITORY / ".azurite", blobs=True)
    except AzuriteUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with service:
        yield service.connection_string


@pytest.fixture
def blobs(azurite_connection_string: str) -> Iterator[ContainerClient]:
    """A blob container on Azurite, empty, gone at the end."""
    from azure.storage.blob import ContainerClient

    from spark_azqueue.service.account import API_VERSION

    if "BlobEndpoint=" not in azurite_connection_string:
        if os.environ.get("CI"):
            pytest.fail("the Azurite in AZQUEUE_TEST_CONNECTION_STRING has no BlobEndpoint")
        pytest.skip("needs a BlobEndpoint in AZQUEUE_TEST_CONNECTION_STRING")
    name = f"bodies-{uuid.uuid4().hex[:12]}"
    with ContainerClient.from_connection_string(
        azurite_connection_string, name, api_version=API_VERSION
    ) as client:
        client.create_container()
        yield client
        client.delete_container()


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(REPOSITORY)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def with_spark() -> Path:
    """A Python with Spark and what the package requires; the package comes to it as a wheel."""
    return _environment("wheel")


@pytest.fixture(scope="session")
def old_spark() -> Path:
    """The same of a line of Spark before 4.2, which AZQUEUE_OLD_SPARK names."""
    return _environment(os.environ.get("AZQUEUE_OLD_SPARK", "4.0"))


def _environment(name: str) -> Path:
    python = REPOSITORY / ".matrix" / name / "bin" / "python"
    if not python.exists():
        missing = f"no Spark in .matrix/{name}: run `make .matrix/{name}/.installed`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return python


def _container() -> object | None:
    """Azurite in Docker, where Docker answers."""
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "info"], capture_output=True, check=False).returncode
    ):
        return None
    from testcontainers.community.azurite import AzuriteContainer

    return AzuriteContainer()
