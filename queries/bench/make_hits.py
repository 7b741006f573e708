#!/usr/bin/env python3
"""A table like ClickBench's `hits`, as Parquet: wide, skewed, with many empty texts. Needs duckdb.

    make_hits.py hits.parquet [--rows 2000000] [--seed 1]

Values are made of hashes of the row's number and the seed. Names, widths and skew follow ClickBench. `queries/hits`
has 26 questions about it.
"""

import argparse

import duckdb

# A number below `values`, of which the small ones are frequent; a text of a number; a share of rows.
MACROS = """
CREATE MACRO part(i, salt) AS (hash(i, salt, {seed}) >> 11)::DOUBLE / 9007199254740992;
CREATE MACRO skewed(i, salt, n, power) AS floor(n * pow(part(i, salt), power))::BIGINT;
CREATE MACRO texts(i, salt, prefix, code, share) AS
    CASE WHEN part(i, salt) < share THEN '' ELSE prefix || (code * 2654435761 % 99991) || '/' || code END;
"""
COLUMNS = """
SELECT (hash(i, 1, {seed}) >> 2)::BIGINT AS "WatchID",
       TIMESTAMP '2013-07-01' + to_seconds(i * 3 // 2 + skewed(i, 2, 60, 1)) AS "EventTime",
       "EventTime"::DATE AS "EventDate",
       skewed(i, 3, 6000, 3)::INT AS "CounterID",
       skewed(i, 4, 400000, 2.5) * 7919 + 1000003 AS "UserID",
       skewed(i, 5, 5000, 4)::INT AS "RegionID",
       (skewed(i, 6, 1048576, 1) - 524288)::INT AS "ClientIP",
       skewed(i, 7, 100, 3)::SMALLINT AS "OS",
       texts(i, 8, 'http://example.com/page/', skewed(i, 9, 200000, 2), 0.02) AS "URL",
       texts(i, 10, 'A title of a page, which is rather long: ', skewed(i, 9, 100000, 2), 0.15) AS "Title",
       texts(i, 11, 'http://google.com/search/', skewed(i, 12, 150000, 3), 0.3) AS "Referer",
       texts(i, 13, 'words of a search ', skewed(i, 14, 60000, 2), 0.87) AS "SearchPhrase",
       skewed(i, 15, 40, 6)::SMALLINT AS "SearchEngineID",
       texts(i, 16, 'phone', skewed(i, 17, 150, 3), 0.93) AS "MobilePhoneModel",
       skewed(i, 18, 90, 8)::SMALLINT AS "MobilePhone",
       CASE WHEN part(i, 19) < 0.97 THEN 0 ELSE skewed(i, 20, 39, 1) + 1 END::SMALLINT AS "AdvEngineID",
       (skewed(i, 21, 20, 1) * 80 + 400)::SMALLINT AS "ResolutionWidth",
       skewed(i, 22, 2000, 1)::SMALLINT AS "WindowClientWidth",
       skewed(i, 23, 1200, 1)::SMALLINT AS "WindowClientHeight",
       (part(i, 24) < 0.1)::SMALLINT AS "IsRefresh",
       (part(i, 25) < 0.2)::SMALLINT AS "DontCountHits",
       (part(i, 26) < 0.05)::SMALLINT AS "IsLink",
       (skewed(i, 27, 11, 1) - 1)::SMALLINT AS "TraficSourceID",
       skewed(i, 9, 200000, 2) * 104729 + 17 AS "URLHash",
       CASE WHEN part(i, 28) < 0.1 THEN NULL ELSE part(i, 29) * 100 END AS "Duration"
FROM range({rows}) AS rows(i)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    database = duckdb.connect()
    for statement in MACROS.format(seed=arguments.seed).split(";"):
        if statement.strip():
            database.execute(statement)
    select = COLUMNS.format(seed=arguments.seed, rows=arguments.rows)
    out = arguments.out.replace("'", "''")
    database.execute(f"COPY ({select}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)")


if __name__ == "__main__":
    main()
