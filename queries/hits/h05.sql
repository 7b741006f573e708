SELECT count(DISTINCT "SearchPhrase") AS n FROM hits
