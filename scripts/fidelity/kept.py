"""What units came to, kept for the next run: of the same binaries, command and program it is not run again."""

import hashlib
import json


class Kept:
    """A directory with a file for each unit. `files` are those that the results depend on."""

    def __init__(self, directory, files):
        self.directory = directory
        digest = hashlib.sha256()
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        self.files = digest.hexdigest()

    def _file(self, unit):
        return self.directory / f"{unit}.json"

    def _key(self, command):
        return hashlib.sha256(json.dumps([self.files, command]).encode()).hexdigest()

    def rounds(self, unit, command=None):
        """What was kept of this command; without one, of whatever it was run with. Empty if there is nothing."""
        try:
            kept = json.loads(self._file(unit).read_text())
        except FileNotFoundError:
            return []
        if command is not None and kept["key"] != self._key(command):
            return []
        return [{side: tuple(came) for side, came in pair.items()} for pair in kept["rounds"]]

    def keep(self, unit, command, rounds):
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self._file(unit)
        # Whole or not at all: a run may be stopped at any time.
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"key": self._key(command), "rounds": rounds}))
        unfinished.rename(file)
