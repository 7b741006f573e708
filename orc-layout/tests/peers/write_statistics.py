"""Writes files with pyorc and prints the statistics that pyorc states for each, as JSON.

    python3 write_statistics.py FOLDER

Prints {file: {column: statistics}}. Dates are days, times are nanoseconds, decimals are unscaled.
"""

import datetime
import decimal
import json
import pathlib
import sys

import pyorc

SCALES = {"dec": 2, "big": 10}
SCHEMA = (
    "struct<boo:boolean,ti:tinyint,sm:smallint,i:int,l:bigint,huge:bigint,f:float,d:double,s:string,c:char(5),"
    "v:varchar(5),b:binary,day:date,t:timestamp,ts:timestamp with local time zone,dec:decimal(10,2),"
    "big:decimal(38,10),li:array<int>,m:map<string,int>,st:struct<x:int>,u:uniontype<int,string>>"
)
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def row(n):
    moment = datetime.datetime(1969, 1, 1) + datetime.timedelta(seconds=n * 12345, microseconds=n * 1001 % 1000000)
    return (
        n % 3 == 0,
        n % 100 - 50,
        n - 500,
        n * 1000 - 7,
        n * 10**12 - 3,
        2**62 + n,  # the sum overflows
        n / 4,
        n / 8 - 3,
        f"w{n % 500:04}ö",
        f"c{n % 9}",
        f"v{n % 11}",
        bytes(n % 5),
        datetime.date(1970, 1, 1) + datetime.timedelta(days=n - 400),
        moment,
        moment.replace(tzinfo=UTC),
        decimal.Decimal(n * 7 - 99).scaleb(-2),
        decimal.Decimal(n * 12345678901234567 - 10**9).scaleb(-10),
        list(range(n % 4)),
        [("k", n)][: n % 2],
        (n,),
        n,
    )


def plain(value, column):
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / datetime.timedelta(microseconds=1)) * 1000
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, decimal.Decimal):
        return str(int(value.scaleb(SCALES[column])))
    return value


def main():
    folder = pathlib.Path(sys.argv[1])
    files = {}
    for name, rows, nulls, options in (
        ("nulls", 3000, 7, {"compression": pyorc.CompressionKind.NONE, "row_index_stride": 1000}),
        ("stripes", 20000, 3, {"compression": pyorc.CompressionKind.ZLIB, "stripe_size": 1 << 16}),
        ("full", 1500, 0, {"compression": pyorc.CompressionKind.ZSTD, "row_index_stride": 500}),
        ("only-nulls", 100, 1, {"compression": pyorc.CompressionKind.NONE}),
        ("empty", 0, 0, {"compression": pyorc.CompressionKind.NONE}),
    ):
        path = folder / f"{name}.orc"
        with open(path, "wb") as data:
            with pyorc.Writer(data, SCHEMA, **options) as writer:
                for n in range(rows):
                    none = nulls and n % nulls == 0
                    writer.write((None,) * 21 if none else row(n))
        with open(path, "rb") as data:
            reader = pyorc.Reader(data)
            files[path.name] = {
                column: {
                    key: plain(value, column)
                    for key, value in reader[reader.schema.find_column_id(column)].statistics.items()
                    if key != "kind"
                }
                for column in reader.schema.fields
            }
    json.dump(files, sys.stdout)


main()
