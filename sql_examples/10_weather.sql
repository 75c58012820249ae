-- title: Does wind delay departures?
-- shows: a join of two large tables on time and airport
SELECT
    CASE
        WHEN w.wind_speed < 5 THEN '1 calm (below 5 mph)'
        WHEN w.wind_speed < 15 THEN '2 breeze (below 15 mph)'
        WHEN w.wind_speed < 25 THEN '3 wind (below 25 mph)'
        ELSE '4 strong wind'
    END AS wind,
    count(*) AS flights,
    round(avg(f.dep_delay), 1) AS mean_delay
FROM flights AS f
JOIN weather AS w ON w.origin = f.origin AND w.time_hour = f.time_hour
WHERE w.wind_speed IS NOT NULL
GROUP BY wind
ORDER BY wind;
