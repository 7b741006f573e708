SELECT c_count, count(*) custdist
FROM
    (SELECT c_custkey, count(o_orderkey) c_count
     FROM customer
     LEFT JOIN orders ON c_custkey = o_custkey
     AND o_comment NOT LIKE '%special%requests%'
     GROUP BY c_custkey) x
GROUP BY 1
ORDER BY 2 DESC, 1 DESC;
