-- And the surcharges of the hour? Two columns fetched.
-- Trips of at least 30 miles: about 0.03 % of all trips.
SELECT sum(trip_distance) AS miles, sum(total_amount) AS total, sum(extra) AS extra
FROM trips
WHERE trip_distance >= 30;
