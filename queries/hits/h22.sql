SELECT "CounterID", avg(length("URL")) AS l, count(*) AS n FROM hits WHERE "URL" <> '' GROUP BY 1 HAVING count(*) > 3000 ORDER BY l DESC, 1 LIMIT 25
