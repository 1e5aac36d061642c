"""The compose file and the Dockerfile, as far as they can be checked without Docker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server
from site_pages import REPOSITORY

from spark_azqueue import AzQueueListener
from spark_azqueue.metrics.prometheus import export_to_prometheus
from spark_azqueue.options.account import read_account

FOLDER = REPOSITORY / "examples" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (REPOSITORY / "deploy" / "Dockerfile").read_text(encoding="utf-8")
JOB = re.findall(r"^ARG JOB=(.+)$", DOCKERFILE, re.MULTILINE)[0]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.y*ml")), ids=lambda path: path.name)
def test_every_file_is_yaml(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_images_have_versions() -> None:
    images = [each["image"] for each in SERVICES.values() if "image" in each]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)

    assert len(images) == 4
    assert all(re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", image) for image in images)
    assert re.search(r"pyspark\[sql\]==\d+\.\d+\.\d+'", DOCKERFILE)


def test_azurite_is_the_one_of_the_tests() -> None:
    version = re.search(r"^AZURITE_VERSION = (.+)$", (REPOSITORY / "Makefile").read_text(), re.M)

    assert version
    assert SERVICES["azurite"]["image"].endswith(f":{version[1]}")


@pytest.mark.parametrize("name", SERVICES)
def test_mounted_files_and_volumes_exist(name: str) -> None:
    for mount in SERVICES[name].get("volumes", ()):
        source = mount.split(":")[0]
        if source.startswith("."):
            assert (FOLDER / source).resolve().is_file(), source
            assert mount.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


def test_what_the_image_copies_exists() -> None:
    build = SERVICES["stream"]["build"]
    context = (FOLDER / build["context"]).resolve()
    sources = [
        source.replace("${JOB}", JOB)
        for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert (context / build["dockerfile"]).is_file()
    assert (FOLDER / "stream.py").resolve() in {(context / source).resolve() for source in sources}
    assert all((context / source).exists() for source in sources)


def test_the_image_is_built_from_all_that_the_build_reads() -> None:
    """Else pip fails in the image alone, which no test builds."""
    setup = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    manifest = (REPOSITORY / "MANIFEST.in").read_text(encoding="utf-8")
    read = [*re.findall(r'HERE / "([\w.]+)"\)\.read|read\(HERE / "([\w.]+)"', setup)]
    needed = {name for found in read for name in found if name} | {"pyproject.toml", "setup.py"}
    needed |= set(re.findall(r"^include (\S+)$", manifest, re.MULTILINE))

    assert needed == {
        "pyproject.toml",
        "setup.py",
        "README.md",
        "setup.cfg",
        "tools/absolute_links.py",
    }
    assert all(
        re.search(rf"^COPY .*(?<!\S){re.escape(each)} ", DOCKERFILE, re.M) for each in needed
    )


def test_the_health_check_asks_the_metrics_of_the_job() -> None:
    ((_, flag, code),) = map(
        json.loads, re.findall(r"^    CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    )
    job = (FOLDER / "stream.py").read_text(encoding="utf-8")
    registry = CollectorRegistry()
    server, thread = start_http_server(0, "127.0.0.1", registry)
    here = code.replace("9464", str(server.server_port))

    def status() -> int:
        return subprocess.run([sys.executable, flag, here], stderr=subprocess.DEVNULL).returncode

    try:
        assert status() != 0, "another program's metrics"
        export_to_prometheus(AzQueueListener(), registry)
        assert status() == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert status() != 0, "nothing answers"
    assert '"METRICS_PORT", "9464"' in job
    assert "9464" in code


def test_services_that_are_waited_for_exist_and_ports_are_of_this_machine() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_prometheus_scrapes_the_port_of_the_job_and_reads_the_alerts() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    job = (FOLDER / "stream.py").read_text(encoding="utf-8")
    ((target,),) = [each["targets"] for each in config["scrape_configs"][0]["static_configs"]]
    service, port = target.split(":")

    assert service in SERVICES
    assert f'"METRICS_PORT", "{port}"' in job
    assert f"EXPOSE {port}" in DOCKERFILE
    mounted = {mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]}
    assert set(config["rule_files"]) <= mounted


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    (source,) = yaml.safe_load((FOLDER / "grafana/datasource.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((FOLDER / "grafana/dashboards.yaml").read_text())["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    mounts = dict(mount.split(":")[1::-1] for mount in SERVICES["grafana"]["volumes"])

    assert source["url"] == "http://prometheus:9090"
    assert home.startswith(provider["options"]["path"])
    assert json.loads((FOLDER / mounts[home]).read_text(encoding="utf-8"))["uid"]


def test_the_key_is_azurites_public_one() -> None:
    azurite = read_account({"secret.connectionString": "UseDevelopmentStorage=true"}, {})

    text = SERVICES["stream"]["environment"]["AZURE_STORAGE_CONNECTION_STRING"]
    assert f"AccountKey={azurite.key};" in text
    assert "http://azurite:10001/" in text
