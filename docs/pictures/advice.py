"""The picture of docs/choosing.md, "Advice for several questions": python docs/pictures/advice.py."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf

if __name__ == "__main__":
    rng = np.random.default_rng(3)
    size = rng.integers(1, 7, 20_000)
    customer = np.repeat(np.arange(20_000), size)
    place = np.concatenate([np.arange(n) for n in size])
    table = pa.table(
        {
            "customer": customer,
            "product": [f"P{i}" for i in (customer + place) % 12],
            "spent": rng.gamma(4, 5, size.sum()),
        }
    )
    orders = sf.scan(table, privacy_unit="customer")
    products = orders.group_by("product", keys=[f"P{i}" for i in range(12)])
    spent = sf.mean("spent", lower=0, upper="auto")
    questions = {
        "sales": products.bound(groups="auto", rows="auto").agg(n=sf.count(), spent=spent),
        "customers": products.bound(groups=1).agg(people=sf.count_units()),
        "all": orders.agg(people=sf.count_units()),
    }
    sf.advise(orders, questions, epsilon=5).plot(Path(__file__).with_suffix(".svg"))
