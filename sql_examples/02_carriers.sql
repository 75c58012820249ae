-- title: Which airlines had the most flights, and how late were they?
-- shows: an aggregate and a join
SELECT
    a.name,
    count(*) AS flights,
    round(avg(f.dep_delay), 1) AS mean_delay,
    count(*) FILTER (WHERE f.dep_time IS NULL) AS cancelled
FROM flights AS f
JOIN airlines AS a ON a.carrier = f.carrier
GROUP BY a.name
ORDER BY flights DESC, a.name
LIMIT 10;
