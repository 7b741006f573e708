-- What did the long trips cost? One column fetched where the filter holds.
-- Trips of at least 20 miles: about 0.5 % of all trips.
SELECT sum(trip_distance) AS miles, sum(total_amount) AS total
FROM trips
WHERE trip_distance >= 20;
