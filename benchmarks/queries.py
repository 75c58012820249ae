"""The queries of the TPC-H benchmark: three of its own, and one for each thing that a scan must do well."""

TABLES = ("lineitem", "orders", "customer")

QUERIES = {
    "Q1": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
               sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
               avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
               count(*) AS count_order
        FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus
        ORDER BY l_returnflag, l_linestatus""",
    "Q6": """
        SELECT sum(l_extendedprice * l_discount) AS revenue
        FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q3": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate
        LIMIT 10""",
    "range": """
        SELECT count(*), sum(l_extendedprice), max(l_shipdate)
        FROM lineitem
        WHERE l_orderkey BETWEEN 30000 AND 33000""",
    "point": """
        SELECT l_linenumber, l_quantity, l_extendedprice, l_shipmode
        FROM lineitem
        WHERE l_orderkey = 30000
        ORDER BY l_linenumber""",
    "group": """
        SELECT l_returnflag, l_linestatus, l_shipmode, count(*)
        FROM lineitem
        GROUP BY l_returnflag, l_linestatus, l_shipmode
        ORDER BY l_returnflag, l_linestatus, l_shipmode""",
    "like": "SELECT count(*) FROM lineitem WHERE l_comment LIKE '%special%requests%'",
    "strings": "SELECT max(l_comment), min(l_comment), max(l_shipmode), min(l_shipinstruct) FROM lineitem",
    "sums": """
        SELECT sum(l_orderkey), sum(l_partkey), sum(l_suppkey), sum(l_linenumber), sum(l_quantity),
               sum(l_extendedprice), sum(l_discount), sum(l_tax),
               max(l_shipdate), max(l_commitdate), max(l_receiptdate)
        FROM lineitem""",
}
