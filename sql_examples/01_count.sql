-- title: How many flights left New York City in 2013?
-- shows: count(*) reads no column
SELECT count(*) AS flights
FROM flights;
