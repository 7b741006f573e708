-- And the surcharges of the hour? Two columns fetched.
-- Trips of at least 20 miles: about 0.5 % of all trips.
SELECT sum(trip_distance) AS miles, sum(total_amount) AS total, sum(extra) AS extra
FROM trips
WHERE trip_distance >= 20;
