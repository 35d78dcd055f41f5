"""A daemon of the comparison's own, with a bus of its own, for sessions that it starts; root, within the stage's mounts."""

import shutil
import subprocess
import time
from contextlib import contextmanager

EVERYTHING = "".join(f"<allow {what}/>" for what in (
    'user="*"', 'own="*"', 'send_type="method_call"', 'send_type="signal"', 'send_requested_reply="true" send_type="method_return"',
    'send_requested_reply="true" send_type="error"', 'receive_type="method_call"', 'receive_type="method_return"',
    'receive_type="error"', 'receive_type="signal"'))
LATEST = 30


class NotThere(Exception):
    """No daemon, with the reason."""


def address(stage):
    return f"unix:path={stage.path}/daemon/bus"


def until(what, condition):
    latest = time.monotonic() + LATEST
    while not condition():
        if time.monotonic() > latest:
            raise NotThere(f"{what} is not there after {LATEST} s")
        time.sleep(0.01)


@contextmanager
def running(stage):
    """A gatedd that takes sessions, until the end."""
    if not shutil.which("dbus-daemon"):
        raise NotThere("no dbus-daemon: apt-get install dbus-daemon")
    if not (stage.binaries / "gatedd").exists():
        raise NotThere(f"no gatedd in {stage.built}: make build")
    place = stage.path / "daemon"
    policy = place / "policy/etc/gated"
    policy.mkdir(parents=True)
    place.chmod(0o755)
    (policy / "ceiling.toml").write_text(f'schema = 1\n[users]\nmay_run = ["{stage.user}"]\n')
    (place / "bus.conf").write_text(
        '<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" '
        '"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">'
        f"<busconfig><type>system</type><listen>{address(stage)}</listen><auth>EXTERNAL</auth>"
        f'<policy context="default">{EVERYTHING}</policy></busconfig>'
    )
    environment = {**stage.environment(), "DBUS_SYSTEM_BUS_ADDRESS": address(stage)}
    processes = []
    with open(place / "log", "wb") as log:
        def start(*argv):
            processes.append(subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

        try:
            start("dbus-daemon", f"--config-file={place}/bus.conf", "--nofork", "--nopidfile")
            until("the bus", (place / "bus").exists)
            start(str(stage.binaries / "gatedd"), "--runtime", str(place / "run"), "--audit", str(place / "audit.jsonl"),
                  "--policy-root", str(place / "policy"), "--state", str(place / "state"), "--supervisors", "spawn")
            until("the daemon", lambda: answers(stage, environment))
            yield
        finally:
            for process in reversed(processes):
                process.terminate()
                try:
                    process.wait(timeout=LATEST)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def answers(stage, environment):
    """Whether a session can be had."""
    tried = subprocess.run(
        [str(stage.binaries / "gated-run"), "--profile", str(stage.path / "workspace.toml"), "--", "/bin/true"], env=environment,
        cwd=stage.path / "programs", stdin=subprocess.DEVNULL, capture_output=True, check=False,
        user=stage.uid, group=stage.gid, extra_groups=[],
    )
    return tried.returncode == 0
