"""Runs a command under nono by its Python package, as the user: nono_run.py FOLDER COMMAND...

The folder is writable by Landlock, and so are /tmp and the devices that everybody has open. Its network is as it was: a block would
take the loopback, too.
"""

import os
import sys

from nono_py import AccessMode, CapabilitySet, apply


def main():
    folder, *command = sys.argv[1:]
    capabilities = CapabilitySet()
    capabilities.allow_path("/", AccessMode.READ)
    capabilities.allow_path(folder, AccessMode.READ_WRITE)
    capabilities.allow_path("/tmp", AccessMode.READ_WRITE)
    capabilities.allow_file("/dev/null", AccessMode.READ_WRITE)
    apply(capabilities)
    os.execvp(command[0], command)


main()
