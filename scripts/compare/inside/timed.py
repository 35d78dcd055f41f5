"""Runs inside the sandbox, as the user: executes a command in the cwd and writes how long it took, in seconds, and its status.

The start of the sandbox is so not in the figure of a row; it is a row of its own.
"""

import json
import subprocess
import sys
import time


def main():
    with open("stdout.txt", "wb") as out, open("stderr.txt", "wb") as err:
        start = time.clock_gettime(time.CLOCK_MONOTONIC)
        status = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        seconds = time.clock_gettime(time.CLOCK_MONOTONIC) - start
    with open("took.json", "w", encoding="ascii") as file:
        json.dump({"seconds": seconds, "status": status}, file)


main()
