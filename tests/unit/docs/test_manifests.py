"""The manifests on the pages are YAML, and say what the pages say of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from site_pages import REPOSITORY

from spark_azqueue.metrics.exported import METRICS

PAGES = sorted((REPOSITORY / "docs").glob("*.md"))


def manifests(page: str) -> dict[str, Any]:
    """The documents of a page, by their kind."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    documents = [each for block in blocks for each in yaml.safe_load_all(block)]
    return {each.get("kind", "bundle"): each for each in documents}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_parses(page) -> None:
    manifests(page.name)


def test_there_is_one_pod_and_one_run_at_a_time() -> None:
    found = manifests("supervision.md")

    assert found["Deployment"]["spec"]["replicas"] == 1
    assert found["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_a_trigger_by_prometheus_asks_for_metrics_that_exist() -> None:
    (trigger,) = manifests("supervision.md")["bundle"]["triggers"]
    names = re.findall(r"azqueue_\w+", trigger["metadata"]["query"])

    assert trigger["type"] == "prometheus"
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert names
    assert set(names) <= {metric.name for metric in METRICS}


@pytest.mark.parametrize("kind", ["ScaledJob", "ScaledObject"])
def test_keda_starts_one_pod_and_counts_leased_messages(kind: str) -> None:
    spec = manifests("supervision.md")[kind]["spec"]
    (trigger,) = spec["triggers"]

    assert spec["maxReplicaCount"] == 1
    assert trigger["type"] == "azure-queue"
    assert trigger["metadata"]["queueLengthStrategy"] == "all"
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
