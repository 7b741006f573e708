-- Half a year by pickup time, which the rows roughly follow: whole stripes and row groups can be skipped.
SELECT date_trunc('month', pickup_datetime) AS month, count(*) AS trips, avg(trip_distance) AS miles
FROM trips
WHERE pickup_datetime >= TIMESTAMP '2019-06-01' AND pickup_datetime < TIMESTAMP '2019-12-01'
GROUP BY month
ORDER BY month;
