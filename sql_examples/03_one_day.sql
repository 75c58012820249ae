-- title: What was the first day of July like, hour by hour?
-- shows: a time range skips the fragments and pages of all other days
SELECT
    date_trunc('hour', time_hour) AS hour_utc,
    count(*) AS flights,
    max(dep_delay) AS worst_delay
FROM flights
WHERE time_hour >= TIMESTAMP '2013-07-01T04:00:00Z'
  AND time_hour < TIMESTAMP '2013-07-02T04:00:00Z'
GROUP BY hour_utc
ORDER BY hour_utc;
