SELECT count(DISTINCT "UserID") AS n FROM hits
