"""The command `weir` of an installed package, which lies in the package.

It stands beside the package, since importing a part of weir imports weir, which
the command does not need.
"""

import os
import sys


def find(package=None):
    """The path of the command: in the package, or where `make install` put it,
    to which the package has a link."""
    if package is None:
        package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "weir")
    return os.path.join(package, "bin", "weir")


def main():
    """Become the command, with the arguments of this program."""
    command = find()
    try:
        os.execv(command, ["weir", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit("weir: this package was built without the command, because "
                 "jansson or liblzma was missing (libjansson-dev and "
                 "liblzma-dev on Debian); install them and build it again")
    except OSError as error:
        sys.exit(f"weir: cannot start {command}: {error.strerror}")
