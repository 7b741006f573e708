"""Reads ORC files with pyarrow and writes their first rows as Arrow IPC files.

    python3 export_rows.py FOLDER ROWS <paths.json

The standard input is a JSON list of paths. Path k becomes FOLDER/k.arrow. Prints a JSON list: null for a file that was
read, else the error.
"""

import json
import pathlib
import sys

import pyarrow
import pyarrow.ipc
import pyarrow.orc


def export(path, target, rows):
    table = pyarrow.orc.ORCFile(path).read().slice(0, rows)
    with pyarrow.ipc.new_file(target, table.schema) as writer:
        writer.write_table(table)


def main():
    folder, rows = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    outcomes = []
    for number, path in enumerate(json.load(sys.stdin)):
        try:
            export(path, folder / f"{number}.arrow", rows)
            outcomes.append(None)
        except Exception as error:  # each reader has errors of its own
            outcomes.append(f"{type(error).__name__}: {error}")
    print(json.dumps(outcomes))


main()
