SELECT avg("UserID") AS a FROM hits
