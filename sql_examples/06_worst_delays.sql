-- title: Which ten departures were the latest?
-- shows: the top rows of a table (ORDER BY, LIMIT), with two joins
SELECT
    f.dep_delay,
    f.month,
    f.day,
    f.carrier,
    f.flight,
    p.model,
    a.name AS destination
FROM flights AS f
LEFT JOIN planes AS p ON p.tailnum = f.tailnum
LEFT JOIN airports AS a ON a.faa = f.dest
WHERE f.dep_delay IS NOT NULL
ORDER BY f.dep_delay DESC
LIMIT 10;
