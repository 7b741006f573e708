SELECT sum("AdvEngineID") AS s, count(*) AS n, avg("ResolutionWidth") AS a FROM hits
