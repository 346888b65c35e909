"""Paths of the package's parts, for programs that build against them."""

import os


def library_path():
    """The path of the C library that this package uses, libweir.so.0.

    A program that uses weir's C calls in the same process must load this file,
    so that there is one allocator.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "libweir.so.0")


def include_dir():
    """The folder of <weir/weir.h>, for a C compiler's -I."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def explain(error):
    """Explain to a user why the extension cannot be imported."""
    import sys
    import sysconfig

    version = "{} {}.{}".format(sys.implementation.name, *sys.version_info)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return (f"weir cannot be imported by {version} without the GIL: its "
                "extension uses CPython's stable ABI, which such a build has "
                "not. Use a build with the GIL.")
    if sys.implementation.name != "cpython" or sys.version_info < (3, 9):
        return f"weir needs CPython 3.9 or later; this is {version}"
    return f"weir's extension cannot be loaded by {version}: {error}"
