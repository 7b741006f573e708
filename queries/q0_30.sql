-- How many long trips are there, and how long are they together? One column, scanned from end to end.
-- Trips of at least 30 miles: about 0.03 % of all trips.
SELECT count(*) AS trips, sum(trip_distance) AS miles
FROM trips
WHERE trip_distance >= 30;
