-- What did the long trips cost? One column fetched where the filter holds.
-- Trips of at least 30 miles: about 0.03 % of all trips.
SELECT sum(trip_distance) AS miles, sum(total_amount) AS total
FROM trips
WHERE trip_distance >= 30;
