# Tests that start programs in every way that Python has, some of them in parallel.
mkdir -p suite
cd suite
cat >test_children.py <<'PY'
import concurrent.futures, multiprocessing, os, signal, subprocess, sys
import pytest


def square(number):
    return number * number


@pytest.mark.parametrize("number", range(30))
def test_run(number):
    done = subprocess.run(["expr", str(number), "+", "1"], capture_output=True, text=True, check=True)
    assert int(done.stdout) == number + 1


def test_shell_pipeline():
    assert subprocess.check_output("printf '%s\\n' b a | sort | tr '\\n' ' '", shell=True) == b"a b "


def test_what_is_not_there():
    with pytest.raises(FileNotFoundError):
        subprocess.run(["./none"])


def test_what_is_no_program(tmp_path):
    (tmp_path / "text").write_text("no program\n")
    with pytest.raises(PermissionError):
        subprocess.run([tmp_path / "text"])
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(OSError) as told:
        subprocess.run([tmp_path / "text"])
    assert told.value.errno == 8


def test_script(tmp_path):
    script = tmp_path / "script"
    script.write_text('#!/bin/sh -e\nprintf "%s-" "$@"\n')
    script.chmod(0o755)
    assert subprocess.check_output([script, "a b", ""]) == b"a b--"


def test_fork_and_exec():
    child = os.fork()
    if child == 0:
        os.execve("/bin/sh", ["any name", "-c", "exit $STATUS"], {"STATUS": "7"})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_exec_of_a_descriptor():
    child = os.fork()
    if child == 0:
        os.execve(os.open("/bin/true", os.O_RDONLY), ["true"], {})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_posix_spawn():
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "kill -TERM $$"], {})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda number: subprocess.check_output(["echo", str(number)]), range(60))
    assert [int(output) for output in outputs] == list(range(60))


def test_processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]


def test_python_again():
    assert subprocess.check_output([sys.executable, "-c", "print(6 * 7)"]) == b"42\n"


def test_timeout():
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "100"], timeout=0.2)
PY
/usr/bin/python3 -m pytest -q -p no:cacheprovider test_children.py | sed 's/ in [0-9.]*s$//'
