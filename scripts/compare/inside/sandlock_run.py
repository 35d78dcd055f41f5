"""Runs a command under sandlock by its Python package, as the user: sandlock_run.py landlock|cow|policy FOLDER COMMAND...

landlock: the folder is writable by Landlock, as sandlock's own examples have it. cow: changes in the folder are held,
carried out by sandlock's supervisor in a copy, and laid over the folder at the end. policy: as landlock, and a function is
asked about each call that is held, which allows it.
"""

import sys

from sandlock import Sandbox


def main():
    kind, folder, *command = sys.argv[1:]
    options = {"fs_readable": ["/"], "fs_writable": ["/tmp", "/dev/null"], "net_allow": ["127.0.0.1:*"], "net_allow_bind": ["*"],
               "cwd": folder}
    if kind == "cow":
        options["workdir"] = folder
    else:
        options["fs_writable"].append(folder)
    if kind == "policy":
        options["policy_fn"] = lambda event, context: False
    sys.exit(Sandbox(**options).run_interactive(command))


main()
