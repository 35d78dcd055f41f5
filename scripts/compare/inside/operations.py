"""Runs inside the sandbox, as the user: the same few operations on files again and again, by one process or many at once.

operations.py changes|reads DIRECTORY PROCESSES COUNT: says "ready", waits for a line, then does COUNT rounds, shared among the
processes, and prints the seconds that took. A round of changes makes a file, writes it, changes its mode, renames and unlinks it; one of
reads opens four of the thousand files in DIRECTORY.
"""

import os
import sys
import time


def read(directory, count):
    for number in range(count):
        for which in range(4):
            os.close(os.open(f"{directory}/file{(number * 4 + which) % 1000}", os.O_RDONLY))


def change(directory, count):
    first, second = f"{directory}/first", f"{directory}/second"
    for _ in range(count):
        descriptor = os.open(first, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(descriptor, b"content")
        os.close(descriptor)
        os.chmod(first, 0o600)
        os.rename(first, second)
        os.unlink(second)


def main():
    kind, directory, processes, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    begin, started = os.pipe()
    children = []
    for number in range(processes):
        own = directory
        if kind == "changes":
            own = f"{directory}/process{number}"
            os.makedirs(own, exist_ok=True)
        child = os.fork()
        if child == 0:
            os.close(started)
            os.read(begin, 1)
            (change if kind == "changes" else read)(own, count // processes)
            os._exit(0)
        children.append(child)
    os.close(begin)
    (change if kind == "changes" else read)(own, 3)
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.monotonic()
    os.close(started)
    status = [os.waitpid(child, 0)[1] for child in children]
    print(time.monotonic() - start, flush=True)
    # Until everybody has been looked at.
    sys.stdin.readline()
    sys.exit(any(status))


main()
