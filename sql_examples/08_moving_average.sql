-- title: How did the mean delay change during February, smoothed over a week?
-- shows: a time series with a moving average
WITH days AS (
    SELECT make_date(year, month, day) AS date, count(*) AS flights, avg(dep_delay) AS delay
    FROM flights
    WHERE month IN (1, 2)
    GROUP BY date
),
smoothed AS (
    SELECT
        date,
        flights,
        round(delay, 1) AS delay,
        round(avg(delay) OVER (ORDER BY date ROWS BETWEEN 6 PRECEDING AND CURRENT ROW), 1) AS week
    FROM days
)
SELECT date, flights, delay, week
FROM smoothed
WHERE date >= DATE '2013-02-01'
ORDER BY date;
