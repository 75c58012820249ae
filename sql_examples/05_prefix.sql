-- title: Who made the planes whose tail numbers begin with N10?
-- shows: a prefix is a range of values, so LIKE skips pages, too
SELECT
    manufacturer,
    count(*) AS planes,
    min(year) AS oldest,
    max(seats) AS largest
FROM planes
WHERE tailnum LIKE 'N10%'
GROUP BY manufacturer
ORDER BY planes DESC, manufacturer;
