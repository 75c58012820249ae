-- title: What are the two busiest routes of each airport?
-- shows: a window function that ranks groups
WITH routes AS (
    SELECT origin, dest, count(*) AS flights
    FROM flights
    GROUP BY origin, dest
),
ranked AS (
    SELECT origin, dest, flights, rank() OVER (PARTITION BY origin ORDER BY flights DESC) AS place
    FROM routes
)
SELECT r.origin, r.place, r.dest, a.name AS destination, r.flights
FROM ranked AS r
LEFT JOIN airports AS a ON a.faa = r.dest
WHERE r.place <= 2
ORDER BY r.origin, r.place, r.dest;
