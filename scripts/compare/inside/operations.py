"""Runs inside the sandbox, as the user: the same few operations on files again and again, by one process or many at once.

operations.py DIRECTORY PROCESSES COUNT: says "ready", waits for a line, then does COUNT rounds, shared among the processes,
of making a file, writing it, changing its mode, renaming and unlinking it, and prints the seconds that took.
"""

import os
import sys
import time


def work(directory, count):
    first, second = f"{directory}/first", f"{directory}/second"
    for _ in range(count):
        descriptor = os.open(first, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(descriptor, b"content")
        os.close(descriptor)
        os.chmod(first, 0o600)
        os.rename(first, second)
        os.unlink(second)


def main():
    directory, processes, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begin, started = os.pipe()
    children = []
    for number in range(processes):
        own = f"{directory}/process{number}"
        os.makedirs(own, exist_ok=True)
        child = os.fork()
        if child == 0:
            os.close(started)
            os.read(begin, 1)
            work(own, count // processes)
            os._exit(0)
        children.append(child)
    os.close(begin)
    work(f"{directory}/process0", 3)
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
