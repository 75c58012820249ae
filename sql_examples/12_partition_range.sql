-- title: Which airlines had the most flights in the night from June to July?
-- shows: a time range prunes by month, in both versions of the partition spec
SELECT a.name AS airline, count(*) AS flights
FROM flights_by_month AS f
JOIN airlines AS a ON a.carrier = f.carrier
WHERE f.time_hour >= TIMESTAMP '2013-06-30T22:00:00Z'
  AND f.time_hour < TIMESTAMP '2013-07-01T16:00:00Z'
GROUP BY airline
ORDER BY flights DESC, airline
LIMIT 3;
