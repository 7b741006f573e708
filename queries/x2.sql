-- NULLs in the filter and in the aggregates: the surcharge did not exist before 2019.
SELECT count(*) AS n, count(congestion_surcharge) AS with_congestion, sum(congestion_surcharge) AS congestion
FROM trips
WHERE congestion_surcharge IS NULL OR congestion_surcharge > 0;
