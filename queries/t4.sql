-- Trips by number of passengers, year and whole miles: many groups, three columns, no filter.
SELECT passenger_count, extract(year FROM pickup_datetime) AS pickup_year, cast(floor(trip_distance) AS int) AS distance,
       count(*) AS trips
FROM trips
GROUP BY passenger_count, pickup_year, distance
ORDER BY pickup_year, trips DESC, distance, passenger_count NULLS FIRST
LIMIT 50;
