"""Which containers a caller trusts, as texts."""

from __future__ import annotations

import re

import pytest

from spark_azqueue.files.events.trusted import TrustedPlace, places


def test_a_container_of_azures_public_cloud() -> None:
    (place,) = places("shopdata/landing")

    assert place._replace(pattern="") == TrustedPlace(
        account="shopdata",
        container="landing",
        pattern="",
        https="https://shopdata.blob.core.windows.net/landing/",
        abfss="abfss://landing@shopdata.dfs.core.windows.net/",
        wasbs="wasbs://landing@shopdata.blob.core.windows.net/",
    )
    assert path(place, "https://shopdata.dfs.core.windows.net/landing/a/b") == "a/b"
    assert path(place, "https://shopdataxdfs.core.windows.net/landing/a/b") is None


def path(place: TrustedPlace, url: str) -> str | None:
    """The path in a URL. Java's end of a text has another letter in Python."""
    found = re.search(place.pattern.replace(r"\z", r"\Z"), url)
    return found[1] if found else None


@pytest.mark.parametrize(
    ("text", "https", "abfss"),
    [
        (
            "https://shopdata.dfs.core.chinacloudapi.cn/landing",
            "https://shopdata.blob.core.chinacloudapi.cn/landing/",
            "abfss://landing@shopdata.dfs.core.chinacloudapi.cn/",
        ),
        (
            "https://shopdata.z07.blob.storage.azure.net/landing/",
            "https://shopdata.z07.blob.storage.azure.net/landing/",
            "abfss://landing@shopdata.z07.dfs.storage.azure.net/",
        ),
        ("HTTPS://Files.Shop.Example/landing", "https://files.shop.example/landing/", None),
        (
            "http://127.0.0.1:10000/devstoreaccount1/landing",
            "http://127.0.0.1:10000/devstoreaccount1/landing/",
            None,
        ),
        (
            "http://[::1]:10000/devstoreaccount1/landing",
            "http://[::1]:10000/devstoreaccount1/landing/",
            None,
        ),
    ],
)
def test_other_endpoints(text: str, https: str, abfss: str | None) -> None:
    (place,) = places([text])

    assert (place.https, place.abfss) == (https, abfss)
    assert path(place, f"{https}x") == "x"


def test_containers_whose_names_begin_with_a_dollar() -> None:
    root, web = places(["shopdata/$root", "shopdata/$web"])
    blob = "https://shopdata.blob.core.windows.net"

    assert (root.https, web.https) == (f"{blob}/", f"{blob}/$web/")
    assert path(root, f"{blob}/a.json") == path(root, f"{blob}/$root/a.json") == "a.json"
    assert path(web, f"{blob}/$web/a.json") == "a.json"
    assert path(web, f"{blob}/web/a.json") is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "shopdata",
            "shopdata/",
            "/landing",
            "shopdata/landing/in",
            "shopdata/*",
            "*/landing",
        ),
        *(
            "Shopdata/landing",
            "shopdata/Landing",
            "shopdata/la..ing",
            "shopdata/landing\n",
            "a/b/c",
        ),
        *("https://shopdata.blob.core.windows.net", "https://shopdata.blob.core.windows.net/"),
        *("https://shopdata.blob.core.windows.net/landing?sig=x", "ftp://shop.example/landing"),
        *(
            "https://user:pw@shop.example/landing",
            "https://shop.example:x/landing",
            "https://[/abc",
        ),
        *("https://shop.example/one/two/landing", "https:///landing", 5, None),
    ],
)
def test_what_names_no_container_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match="names no container; expected '<account>/<container>'"
    ) as e:
        places([text])
    assert "pw" not in str(e.value)
    assert "sig" not in str(e.value)


def test_nothing_trusted_is_refused() -> None:
    with pytest.raises(ValueError, match="trusted is empty"):
        places([])


@pytest.mark.parametrize(
    ("text", "account"),
    [
        ("http://10.0.0.5:10000/devstoreaccount1/landing", "devstoreaccount1"),
        ("https://shopdata.storage.corp/landing", "shopdata"),
    ],
)
def test_the_account_is_in_the_path_or_in_the_host(text: str, account: str) -> None:
    assert [place.account for place in places(text)] == [account]
