SELECT "SearchEngineID", "SearchPhrase", count(*) AS n FROM hits WHERE "SearchPhrase" <> '' GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 10
