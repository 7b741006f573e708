"""Writes small files with pyarrow and pyorc, as seeds of the fuzz targets: peer_files.py FOLDER."""

import datetime
import decimal
import pathlib
import sys

ROWS = 300
KINDS = "l:bigint,i:int,s:smallint,y:tinyint,b:boolean,t:string,d:double,n:binary,a:date,m:timestamp,c:decimal(20,3)"


def row(n):
    """Runs, steps, outliers and repetitions: every kind of run-length encoding."""
    return (
        n * n * 7919 if n % 40 else -(2**40),
        n // 30 * 5,
        n % 7 - 3,
        n % 100 - 50,
        n % 3 == 0,
        f"w{n % 9}" if n < 150 else f"text {n}",
        n / 8,
        bytes(n % 5),
        datetime.date(1970, 1, 1) + datetime.timedelta(days=n * 11 - 900),
        datetime.datetime(1965, 1, 1) + datetime.timedelta(seconds=n * 12345678, microseconds=n * 1000),
        decimal.Decimal(n * 12345 - 99999).scaleb(-3),
    )


def rows(nulls):
    return [(None,) * 11 if nulls and n % nulls == 0 else row(n) for n in range(ROWS)]


def with_pyorc(folder):
    import pyorc

    codecs = {"none": 0, "zlib": 1, "snappy": 2, "lz4": 4, "zstd": 5}
    for name, codec in codecs.items():
        for nulls in (0, 5):
            for threshold in (0.0, 1.0):
                path = folder / f"pyorc-{name}-{nulls}-{threshold:.0f}.orc"
                with open(path, "wb") as data:
                    with pyorc.Writer(
                        data,
                        f"struct<{KINDS}>",
                        compression=pyorc.CompressionKind(codec),
                        row_index_stride=100,
                        dict_key_size_threshold=threshold,
                        bloom_filter_columns=("l", "t"),
                    ) as writer:
                        writer.writerows(rows(nulls))


def with_pyarrow(folder):
    import pyarrow
    import pyarrow.orc

    names = [kind.split(":")[0] for kind in KINDS.split(",")[:10]] + ["c"]
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        for version in ("0.11", "0.12"):
            for nulls in (0, 5):
                columns = list(zip(*rows(nulls)))
                table = pyarrow.table({name: pyarrow.array(values) for name, values in zip(names, columns)})
                path = folder / f"pyarrow-{codec}-{version}-{nulls}.orc"
                pyarrow.orc.write_table(
                    table, path, compression=codec, file_version=version, dictionary_key_size_threshold=nulls / 5
                )


def main():
    folder = pathlib.Path(sys.argv[1])
    for write in (with_pyorc, with_pyarrow):
        try:
            write(folder)
        except ImportError as missing:
            print(f"no seeds: {missing}", file=sys.stderr)


main()
