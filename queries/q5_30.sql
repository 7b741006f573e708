-- What does the driver make per mile on long trips? Five columns fetched.
-- Trips of at least 30 miles: about 0.03 % of all trips.
SELECT sum(total_amount - extra - coalesce(ehail_fee, 0) - tolls_amount - mta_tax) / sum(trip_distance) AS dollars_per_mile,
       avg((total_amount - extra - coalesce(ehail_fee, 0) - tolls_amount - mta_tax) / trip_distance) AS mean_dollars_per_mile,
       count(*) AS trips
FROM trips
WHERE trip_distance >= 30;
