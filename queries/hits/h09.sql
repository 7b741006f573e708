SELECT "RegionID", sum("AdvEngineID") AS s, count(*) AS n, count(DISTINCT "UserID") AS u FROM hits GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10
