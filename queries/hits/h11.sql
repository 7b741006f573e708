SELECT "SearchPhrase", count(*) AS n FROM hits WHERE "SearchPhrase" <> '' GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10
