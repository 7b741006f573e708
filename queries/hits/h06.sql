SELECT min("EventDate") AS a, max("EventDate") AS b FROM hits
