-- Trips by kind of cab: one string column of few values, no filter.
SELECT cab_type, count(*) AS trips
FROM trips
GROUP BY cab_type
ORDER BY cab_type;
