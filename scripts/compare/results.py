"""Figures of a comparison, kept as one JSON file a row and mode apart, so that one can be measured again and the rest kept."""

import datetime
import json
import statistics
from dataclasses import dataclass


@dataclass
class Figures:
    """What one mode came to in one row: each round's seconds beside those of the bare run of the same round."""

    seconds: list
    bare: list
    # Why there are none, or "".
    reason: str = ""
    date: str = ""

    def median(self):
        return statistics.median(self.seconds)

    def ratio(self):
        """The median of each round's ratio."""
        return statistics.median(one / other for one, other in zip(self.seconds, self.bare))

    def over_bare(self):
        """Seconds on top of bare, the median of each round's."""
        return statistics.median(one - other for one, other in zip(self.seconds, self.bare))


class Store:
    """A directory of JSON files."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def read(self, name):
        file = self.directory / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def write(self, name, value):
        (self.directory / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")

    def keep(self, row, outcomes):
        kept = self.read(row.key)
        date = datetime.date.today().isoformat()
        bare = outcomes.get("bare")
        for mode, outcome in outcomes.items():
            if isinstance(outcome, str):
                kept[mode] = {"reason": outcome, "date": date}
            elif isinstance(bare, list) and len(bare) == len(outcome):
                kept[mode] = {
                    "seconds": [run.seconds for run in outcome], "bare": [run.seconds for run in bare],
                    "whole": [run.whole for run in outcome], "date": date,
                }
        self.write(row.key, kept)

    def figures(self, row):
        """By mode."""
        return {
            mode: Figures(value.get("seconds", []), value.get("bare", []), value.get("reason", ""), value["date"])
            for mode, value in self.read(row.key).items()
        }


def line(row, figures):
    words = [f"{row.key:9}"]
    for mode, figure in figures.items():
        if figure.reason:
            words.append(f"{mode}: {figure.reason}")
        elif mode == "bare":
            words.append(f"bare {figure.median():.3f} s")
        elif row.in_milliseconds:
            words.append(f"{mode} +{figure.over_bare() * 1000:.1f} ms")
        else:
            words.append(f"{mode} {figure.ratio():.2f}")
    return "  ".join(words)
