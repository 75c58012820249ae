-- title: How many hours passed between the departures of one plane from New York City?
-- shows: each row compared with the row before it (lag), for one value of a column
SELECT
    time_hour,
    origin,
    dest,
    (date_part('epoch', time_hour) - date_part('epoch', lag(time_hour) OVER (ORDER BY time_hour))) / 3600
        AS hours_since_last
FROM flights
WHERE tailnum = 'N14228'
  AND month = 1
ORDER BY time_hour;
