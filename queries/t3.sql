-- Trips by number of passengers and year: a function of a timestamp as group, no filter.
SELECT passenger_count, extract(year FROM pickup_datetime) AS pickup_year, count(*) AS trips
FROM trips
GROUP BY passenger_count, pickup_year
ORDER BY pickup_year, trips DESC, passenger_count NULLS FIRST;
