-- title: Which of three planes flew farthest?
-- shows: a list of values on a column with statistics; the scan reads only the named columns
SELECT
    tailnum,
    count(*) AS flights,
    sum(distance) AS miles
FROM flights
WHERE tailnum IN ('N14228', 'N725MQ', 'N711ZX')
GROUP BY tailnum
ORDER BY miles DESC;
