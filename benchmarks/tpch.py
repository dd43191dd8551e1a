"""Ten questions of TPC-H in private form: time beside plain DuckDB, and errors, with customers as privacy units.

    pip install tpchgen-cli                                # anywhere; --tpchgen says where
    python benchmarks/tpch.py [--tpchgen PATH] [--scale 1] [--repeats 3] [--questions Q1 Q13] [--epsilon 1]

The schema is that of TPC-H, in Parquet; orders and lineitem carry the key of their customer, as their owner would prepare
them, by the name `custkey`. part, supplier, nation and region are public. Each floor does the same joins, filters and
aggregates by customer and group in plain DuckDB, and adds them up by group, without bounds and noise; floor and release in
turn, each in a process of its own, from the moment when both have opened their files. The table has medians of ratios pair
by pair, of wall time and of CPU seconds; and the relative error of the released numbers beside those of the floor: of the
middle one of all numbers, and of the worst one.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
from _runs import run

CHANGES = {
    "Q1": "limits and bounds; its 4 groups are public",
    "Q3": "the ten best days in place of the ten best orders, which are people's",
    "Q4": "EXISTS is a join with one row for each order",
    "Q5": "the 5 nations of the region are public groups",
    "Q6": "limits and bounds",
    "Q10": "by nation in place of by customer, who are the units",
    "Q12": "limits; its 2 groups are public",
    "Q13": "public groups: 0 to 40 orders",
    "Q14": "limits and bounds; the ratio is computed of two noisy sums",
    "Q18": "how many orders and customers, and their total, in place of a list of them",
}

SCRIPT = """
import json, sys, time
folder, what, name, epsilon = sys.argv[1:5]
PRIVATE, PUBLIC = ("customer", "orders", "lineitem"), ("part", "supplier", "nation", "region")
path = lambda table: f"{folder}/{table}.parquet"

REVENUE = "l_extendedprice * (1 - l_discount)"
SHIPPED = "l_shipdate <= DATE '1998-09-02'"
UNSHIPPED = "o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"
YEAR = "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"
ORDERED = "o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'"
QUARTER = "o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'"
RETURNED = "o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'"
MODES = "l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'"
MONTH = "l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'"
URGENT = "o_orderpriority IN ('1-URGENT', '2-HIGH')"
BOTH = "lineitem JOIN orders ON lineitem.custkey = orders.custkey AND l_orderkey = o_orderkey"
# The customer; rows; group keys; aggregates by customer and group, by name.
FLOORS = {
    "Q1": ("custkey", f"lineitem WHERE {SHIPPED}", "l_returnflag, l_linestatus", dict(
        quantity="sum(l_quantity)", price="sum(l_extendedprice)", discounted=f"sum({REVENUE})", n="count(*)")),
    "Q3": ("lineitem.custkey", f"{BOTH} JOIN customer ON lineitem.custkey = customer.custkey WHERE c_mktsegment = 'BUILDING' AND {UNSHIPPED}", "o_orderdate",
        dict(revenue=f"sum({REVENUE})")),
    "Q4": ("orders.custkey", f"orders JOIN (SELECT custkey, l_orderkey, bool_or(l_commitdate < l_receiptdate) AS late FROM lineitem GROUP BY ALL) AS l "
        f"ON orders.custkey = l.custkey AND o_orderkey = l_orderkey WHERE late AND {QUARTER}", "o_orderpriority", dict(n="count(*)")),
    "Q5": ("lineitem.custkey", f"{BOTH} JOIN customer ON lineitem.custkey = customer.custkey JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey "
        f"JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'ASIA' AND {ORDERED}", "n_name",
        dict(revenue=f"sum({REVENUE})")),
    "Q6": ("custkey", f"lineitem WHERE {YEAR} AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24", "", dict(revenue="sum(l_extendedprice * l_discount)")),
    "Q10": ("lineitem.custkey", f"{BOTH} JOIN customer ON lineitem.custkey = customer.custkey JOIN nation ON c_nationkey = n_nationkey WHERE {RETURNED}", "n_name",
        dict(revenue=f"sum({REVENUE})")),
    "Q12": ("lineitem.custkey", f"{BOTH} WHERE {MODES}", "l_shipmode", dict(high=f"count(*) FILTER ({URGENT})", low=f"count(*) FILTER (NOT {URGENT})")),
    "Q13": ("t.custkey", "(SELECT custkey, count(o.custkey) AS n FROM customer LEFT JOIN (SELECT custkey FROM orders WHERE o_comment NOT LIKE '%special%requests%') AS o "
        "USING (custkey) GROUP BY custkey) AS t", "n", dict(customers="count(DISTINCT t.custkey)")),
    "Q14": ("custkey", f"lineitem JOIN part ON l_partkey = p_partkey WHERE {MONTH}", "", dict(
        promo=f"sum(CASE WHEN p_type LIKE 'PROMO%' THEN {REVENUE} ELSE 0 END)", revenue=f"sum({REVENUE})")),
    "Q18": ("orders.custkey", "(SELECT custkey, l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY ALL HAVING q > 300) AS l JOIN orders "
        "ON l.custkey = orders.custkey AND l_orderkey = o_orderkey", "", dict(n="count(*)", price="sum(o_totalprice)")),
}

def floor():
    import duckdb
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for table in (*PRIVATE, *PUBLIC):
        con.execute(f"CREATE VIEW {table} AS FROM '{path(table)}'")
    whose, rows, keys, asked = FLOORS[name]
    start = time.perf_counter(), time.process_time()
    sums, key = ", ".join(f"{text} AS {n}" for n, text in asked.items()), f"{keys}, " if keys else ""
    pairs = f"SELECT {whose} AS u, {key}{sums} FROM {rows} GROUP BY {key}{whose}"
    found = con.execute(f"SELECT {key}{', '.join(f'sum({n})' for n in asked)} FROM ({pairs}) GROUP BY ALL").fetchall()
    return start, found

def release():
    import pyarrow as pa, sfumato as sf, sfumato.engines.duckdb.duckdb_engine, sfumato.plan.plan, sfumato.release.release
    pa.array([1])  # which imports pandas where it is installed, once in a process
    customer, orders, lineitem = (sf.scan(path(t), privacy_unit="custkey") for t in PRIVATE)
    part, supplier, nation, region = (sf.public(path(t)) for t in PUBLIC)
    start = time.perf_counter(), time.process_time()
    both = lambda orders, lineitem: lineitem.join(orders, on={"custkey": "custkey", "l_orderkey": "o_orderkey"})
    revenue = dict(revenue=REVENUE)
    def q1():
        made = lineitem.filter(SHIPPED).with_columns(**revenue)
        return made.group_by("l_returnflag", "l_linestatus", keys=[("A", "F"), ("N", "F"), ("N", "O"), ("R", "F")]).bound(groups=4, rows=100).agg(
            quantity=sf.sum("l_quantity", lower=0, upper=50, per="row"), price=sf.sum("l_extendedprice", lower=0, upper=100_000, per="row"),
            discounted=sf.sum("revenue", lower=0, upper=100_000, per="row"), n=sf.count())
    def q3():
        made = both(orders, lineitem).filter(UNSHIPPED).join(customer.filter("c_mktsegment = 'BUILDING'"), on="custkey")
        return made.with_columns(**revenue).group_by("o_orderdate").bound(groups=2).agg(revenue=sf.sum("revenue", lower=0, upper=400_000))
    def q4():
        late = lineitem.per_unit("l_orderkey", late="bool_or(l_commitdate < l_receiptdate)").filter("late")
        made = orders.filter(QUARTER).join(late, on={"custkey": "custkey", "o_orderkey": "l_orderkey"})
        keys = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
        return made.group_by("o_orderpriority", keys=keys).bound(groups=2, rows=2).agg(n=sf.count())
    def q5():
        made = both(orders.filter(ORDERED), lineitem).join(customer, on="custkey")
        made = made.join(supplier, on={"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"}).join(nation, on={"c_nationkey": "n_nationkey"})
        made = made.join(region.filter("r_name = 'ASIA'"), on={"n_regionkey": "r_regionkey"}).with_columns(**revenue)
        keys = ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"]
        return made.group_by("n_name", keys=keys).bound(groups=1).agg(revenue=sf.sum("revenue", lower=0, upper=150_000))
    def q6():
        made = lineitem.filter(f"{YEAR} AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24").with_columns(saved="l_extendedprice * l_discount")
        return made.agg(revenue=sf.sum("saved", lower=0, upper=8_000))
    def q10():
        made = both(orders, lineitem).filter(RETURNED).join(customer, on="custkey").join(nation, on={"c_nationkey": "n_nationkey"})
        keys = sorted(row["n_name"] for row in __import__("pyarrow.parquet").parquet.read_table(path("nation")).to_pylist())
        return made.with_columns(**revenue).group_by("n_name", keys=keys).bound(groups=1).agg(revenue=sf.sum("revenue", lower=0, upper=400_000))
    def q12():
        made = both(orders, lineitem.filter(MODES)).with_columns(high=f"CASE WHEN {URGENT} THEN 1 ELSE 0 END", low=f"CASE WHEN {URGENT} THEN 0 ELSE 1 END")
        return made.group_by("l_shipmode", keys=["MAIL", "SHIP"]).bound(groups=2).agg(
            high=sf.sum("high", lower=0, upper=3), low=sf.sum("low", lower=0, upper=3))
    def q13():
        counted = orders.filter("o_comment NOT LIKE '%special%requests%'").per_unit(n="count(*)")
        made = customer.join(counted, on="custkey", how="left").with_columns(n="coalesce(n, 0)")
        return made.group_by("n", keys=list(range(41))).bound(groups=1).agg(customers=sf.count_units())
    def q14():
        made = lineitem.filter(MONTH).join(part, on={"l_partkey": "p_partkey"}).with_columns(**revenue)
        made = made.with_columns(promo="CASE WHEN p_type LIKE 'PROMO%' THEN revenue ELSE 0 END")
        return made.agg(promo=sf.sum("promo", lower=0, upper=150_000), revenue=sf.sum("revenue", lower=0, upper=200_000))
    def q18():
        large = lineitem.per_unit("l_orderkey", q="sum(l_quantity)").filter("q > 300")
        made = orders.join(large, on={"custkey": "custkey", "o_orderkey": "l_orderkey"})
        return made.bound(rows=1).agg(n=sf.count(), price=sf.sum("o_totalprice", lower=0, upper=600_000))
    made = locals()[name.lower()]().release(epsilon=epsilon, delta=1e-6)
    table = made.to_arrow()
    return start, [list(row.values()) for row in table.to_pylist()]

start, rows = {"floor": floor, "release": release}[what]()
print(json.dumps({"seconds": time.perf_counter() - start[0], "cpu": time.process_time() - start[1],
                  "mb": peak_mb(),
                  "rows": [[str(v) if not isinstance(v, (int, float, type(None))) and type(v).__name__ != "Decimal" else v if v is None else float(v) for v in row] for row in rows]}))
"""
KEYS = {"Q1": 2, "Q3": 1, "Q4": 1, "Q5": 1, "Q10": 1, "Q12": 1, "Q13": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--questions", nargs="+", default=[*CHANGES], choices=[*CHANGES], metavar="QUESTION")
    parser.add_argument("--tpchgen", default="tpchgen-cli", help="the program of that package")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = options.folder / f"tpch_{options.scale:g}"
    made(folder, options.scale, options.tpchgen)
    columns = ("floor s", "release s", "ratio", "of CPU", "release MB", "error", "worst")
    print("".join([f"{'':5}", *(f"{column:>11}" for column in columns)]))
    for name in options.questions:
        pairs = [
            [
                run(sys.executable, SCRIPT, folder, what, name, options.epsilon)
                for what in ("floor", "release")
            ]
            for _ in range(options.repeats)
        ]
        ratio, cpu = (statistics.median(r[of] / f[of] for f, r in pairs) for of in ("seconds", "cpu"))
        floor, release = (statistics.median(pair[i]["seconds"] for pair in pairs) for i in (0, 1))
        errors = [e for f, r in pairs for e in relative(f["rows"], r["rows"], KEYS.get(name, 0))]
        print(
            f"{name:5}{floor:11.2f}{release:11.2f}{ratio:11.2f}{cpu:11.2f}{max(r['mb'] for _, r in pairs):11.0f}"
            f"{statistics.median(errors):11.2%}{max(errors):11.2%}",
            flush=True,
        )


def relative(exact: list, noisy: list, keys: int) -> list[float]:
    """Return the relative errors of all numbers of groups of ten or more that are shown."""
    known = {tuple(row[:keys]): row[keys:] for row in exact}
    found = []
    for row in noisy:
        for truth, value in zip(known.get(tuple(row[:keys]), []), row[keys:], strict=False):
            if truth and abs(truth) >= 10:
                found.append(abs(value - truth) / abs(truth))
    return found or [float("nan")]


def made(folder: Path, scale: float, program: str) -> None:
    """Write the files, where they are not there yet."""
    if (folder / "lineitem.parquet").exists():
        return
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    tables = "customer,orders,lineitem,nation,region,supplier,part"
    subprocess.run(
        [program, "parquet", "-s", f"{scale:g}", f"--tables={tables}", f"--output-dir={raw}"], check=True
    )
    for name, rows in {
        "customer": f"SELECT c_custkey AS custkey, * EXCLUDE (c_custkey) FROM '{raw}/customer.parquet'",
        "orders": f"SELECT o_custkey AS custkey, * EXCLUDE (o_custkey) FROM '{raw}/orders.parquet'",
        **{name: f"FROM '{raw}/{name}.parquet'" for name in ("nation", "region", "supplier", "part")},
        "lineitem": f"SELECT o_custkey AS custkey, l.* FROM '{raw}/lineitem.parquet' AS l JOIN '{raw}/orders.parquet' ON l_orderkey = o_orderkey",
    }.items():
        duckdb.execute(f"COPY ({rows}) TO '{folder}/{name}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    main()
