"""Runs inside the sandbox, as the user: makes many files in the cwd, changes their modes and names, and removes them again."""

import os
import sys


def main():
    count = int(sys.argv[1])
    for number in range(count):
        with open(f"file{number}", "wb") as file:
            file.write(b"content")
    for number in range(count):
        os.chmod(f"file{number}", 0o600)
    for number in range(count):
        os.rename(f"file{number}", f"other{number}")
    for number in range(count):
        os.unlink(f"other{number}")


main()
