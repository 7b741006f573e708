SELECT "SearchPhrase", min("URL") AS u, count(*) AS n FROM hits WHERE "URL" LIKE '%page/7%' AND "SearchPhrase" <> '' GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10
