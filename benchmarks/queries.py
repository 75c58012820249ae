"""The queries of the TPC-H benchmark: three of its own, and one for each thing that a scan must do well."""

TABLES = ("lineitem", "orders", "customer")
ALL_TABLES = (*TABLES, "part", "supplier", "partsupp", "nation", "region")

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

# as the benchmark has them: tables in the order of its text, not of their size
JOINS = {
    "Q3": QUERIES["Q3"],
    "Q5": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
          AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name
        ORDER BY revenue DESC""",
    "Q9": """
        SELECT nation, o_year, sum(amount) AS sum_profit
        FROM (
            SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
                   l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
            FROM part, supplier, lineitem, partsupp, orders, nation
            WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
              AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
              AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year
        ORDER BY nation, o_year DESC""",
    "Q18": """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (
                SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
          AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate
        LIMIT 100""",
}
