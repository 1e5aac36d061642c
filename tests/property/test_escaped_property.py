"""Parts of URLs are escaped as Python's own function escapes them."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.service.wire.calls import escaped

BASE64 = "ABCabc019+/="


@given(st.text() | st.text(BASE64) | st.text("azAZ09-._~\n") | st.uuids().map(str))
def test_a_part_of_a_url_is_escaped_as_python_does(text: str) -> None:
    assert escaped(text) == quote(text, safe="")
