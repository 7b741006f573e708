-- A cascade of filters on doubles and a string (about 5 % of the trips pass), then groups.
SELECT payment_type, count(*) AS trips, min(tip_amount) AS lo, max(tip_amount) AS hi, sum(tip_amount) AS tips
FROM trips
WHERE trip_distance > 10 AND fare_amount BETWEEN 20 AND 60 AND store_and_fwd_flag = 'N'
GROUP BY payment_type
ORDER BY payment_type NULLS FIRST;
