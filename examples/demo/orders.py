"""The demo's messages: made-up orders of a tea and coffee shop, the same in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

SCHEMA = """
    order_id STRING, placed_at TIMESTAMP,
    customer STRUCT<name: STRING, city: STRING>,
    items ARRAY<STRUCT<sku: STRING, name: STRING, quantity: INT, cents: BIGINT>>,
    note STRING
"""

# Names with what is apt to break on the way: XML's own characters, emoji, accents, quotes.
_CUSTOMERS = (
    ("Søren & Søns <Kaffe> ☕", "Aarhus"),
    ("Zoë Müller-Lüdenscheidt", "Köln"),
    ("Café «L'Étoile» 🌟", "Lyon"),
    ("Ngũgĩ & Daughters Ltd.", "Nairobi"),
    ("田中 さくら 🌸", "京都"),
    ("O'Connor <Tea> & Co", "Galway"),
    ("Ана Јовановић", "Ниш"),
    ("Teahouse 🫖 & 🐉 Ltd", "London"),
    ("أمينة بن علي", "Tunis"),
    ("A&B <C> \\ D; --", "Bath"),
    ("Plain Jane", "Leeds"),
)
_GOODS = (
    ("TEA-01", "Sencha 🍵 100 g", 890),
    ("TEA-02", "Darjeeling <first flush>", 1450),
    ("TEA-03", "Earl Grey & bergamot", 640),
    ("COF-01", "Espresso, dark ☕ 500 g", 1290),
    ("COF-02", "Café crème décaféiné", 1190),
    ("POT-01", "Teapot 🫖 0.7 l", 3900),
    ("MUG-01", 'Mug "Good morning"', 1250),
)
_NOTES = (None, None, None, "gift wrap 🎁", "ring twice\nthen wait", "  no sugar  ", "<fragile>")

LONGEST_DELAY_S = 3
"""How long an order may stay invisible at first."""


@dataclass(frozen=True)
class Order:
    """An order, what its row must say in the end, and how it is to be sent.

    body: the message's text. visibility_delay, time_to_live: seconds, or None for the usual.
    """

    order_id: str
    body: str
    customer: str
    total_cents: int
    visibility_delay: int | None
    time_to_live: int | None


def make_orders(count: int, seed: int = 7) -> Iterator[Order]:
    """Make `count` orders: some of them delayed by seconds, some that expire in hours or never."""
    chance = random.Random(seed)
    placed_at = datetime.now(timezone.utc).replace(microsecond=0)
    for number in range(count):
        name, city = chance.choice(_CUSTOMERS)
        bought = [
            (good, chance.randint(1, 5)) for good in chance.sample(_GOODS, chance.randint(1, 4))
        ]
        placed_at += timedelta(milliseconds=chance.randint(5, 40))
        order = {
            "order_id": f"A-{number:06d}",
            "placed_at": placed_at.isoformat(),
            "customer": {"name": name, "city": city},
            "items": [
                {"sku": sku, "name": label, "quantity": quantity, "cents": cents}
                for (sku, label, cents), quantity in bought
            ],
            "note": chance.choice(_NOTES),
        }
        yield Order(
            order_id=f"A-{number:06d}",
            body=json.dumps(order, ensure_ascii=False),
            customer=name,
            total_cents=sum(quantity * cents for (_, _, cents), quantity in bought),
            visibility_delay=chance.randint(1, LONGEST_DELAY_S) if chance.random() < 0.05 else None,
            time_to_live=chance.choice((None, None, None, -1, 2 * 3600, 48 * 3600)),
        )
