SELECT count(*) AS n FROM hits WHERE "URL" LIKE '%/19%'
