"""Runs inside the sandbox, as the user: a test suite as projects have them, with files, subprocesses and some computing."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("number", range(150))
def test_a_file_is_read_back(tmp_path, number):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"numbers": list(range(number))}))
    file.rename(tmp_path / "other.json")
    assert len(json.loads((tmp_path / "other.json").read_text())["numbers"]) == number


@pytest.mark.parametrize("number", range(20))
def test_a_subprocess_answers(tmp_path, number):
    done = subprocess.run([sys.executable, "-c", f"print({number} * 2)"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) == number * 2


@pytest.mark.parametrize("word", ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
def test_a_pipeline_counts(tmp_path, word):
    (tmp_path / "text").write_text(f"{word}\n" * 50)
    done = subprocess.run(f"sort text | uniq -c | grep -c {word}", shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
