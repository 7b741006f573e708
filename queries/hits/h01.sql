SELECT count(*) AS n FROM hits WHERE "AdvEngineID" <> 0
