-- How many long trips are there, and how long are they together? One column, scanned from end to end.
-- Trips of at least 20 miles: about 0.5 % of all trips.
SELECT count(*) AS trips, sum(trip_distance) AS miles
FROM trips
WHERE trip_distance >= 20;
