SELECT "AdvEngineID", count(*) AS n FROM hits WHERE "AdvEngineID" <> 0 GROUP BY 1 ORDER BY n DESC, 1
