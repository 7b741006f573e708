SELECT "MobilePhoneModel", count(DISTINCT "UserID") AS u FROM hits WHERE "MobilePhoneModel" <> '' GROUP BY 1 ORDER BY u DESC, 1 LIMIT 10
