"""Runs inside the sandbox, as the user: inserts rows into a SQLite database of the cwd, each in a transaction that is on the
disk before the next one. Arguments: how many, and the journal mode."""

import sqlite3
import sys


def main():
    count, journal = int(sys.argv[1]), sys.argv[2]
    database = sqlite3.connect("data.sqlite", isolation_level=None)
    database.execute(f"PRAGMA journal_mode={journal}")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT)")
    for number in range(count):
        database.execute("INSERT INTO entries (text) VALUES (?)", (f"entry number {number} of the table",))
    (there,) = database.execute("SELECT count(*) FROM entries").fetchone()
    if there != count:
        sys.exit(f"{there} rows instead of {count}")


main()
