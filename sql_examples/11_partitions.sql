-- title: How late did the flights of United and Delta leave in summer?
-- shows: partitions by month, and since July by month and carrier; the scan does not open partitions of other months and carriers
SELECT
    date_part('month', time_hour) AS month_utc,
    carrier,
    count(*) AS flights,
    round(avg(dep_delay), 1) AS mean_delay
FROM flights_by_month
WHERE date_part('month', time_hour) BETWEEN 6 AND 8
  AND carrier IN ('UA', 'DL')
GROUP BY month_utc, carrier
ORDER BY month_utc, carrier;
