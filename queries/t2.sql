-- Mean price by number of passengers: a group column and an amount, no filter.
SELECT passenger_count, avg(total_amount) AS mean_total
FROM trips
GROUP BY passenger_count
ORDER BY passenger_count NULLS FIRST;
