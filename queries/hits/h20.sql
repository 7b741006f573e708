SELECT "SearchPhrase", "EventTime", "WatchID" FROM hits WHERE "SearchPhrase" <> '' ORDER BY "EventTime", "WatchID" LIMIT 10
