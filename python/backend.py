#!/usr/bin/env python3
"""Build weir's Python package: a PEP 517 backend that needs nothing but make.

    pip install .                      # uses this by pyproject.toml
    python3 python/backend.py FOLDER   # a wheel; `make wheel` does so

The package is what `make python` lays out in the build folder: the modules, the
extension over the stable ABI, the C library and its headers, the command with
its page, the preload library and simcuda. A wheel of it serves every CPython
from 3.9 on. pip shows what make prints with -v only, so a line on the terminal
says every few seconds how far the build is.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A source distribution contains none of these, nor files with a dot: tests, and
# what was built.
LEFT_OUT = ("build", "tests", "lab")

# pip makes scripts and plugins of this.
ENTRIES = ("[console_scripts]\nweir = _weir_command:main\n\n"
           "[pytest11]\nweir = weir.pytest_plugin\n")


def version():
    """The version of <weir/weir.h>, as "0.1.0"."""
    with open(os.path.join(TOP, "include/weir/weir.h")) as file:
        text = file.read()
    return ".".join(
        re.search(rf"#define WEIR_VERSION_{part} (\d+)", text).group(1)
        for part in ("MAJOR", "MINOR", "PATCH"))


# Seconds between two lines on the terminal: pip's own sign of life turns faster.
SAY_EVERY_S = 5


def open_terminal():
    """The user's terminal, where pip keeps what this process prints from it. None
    if there is none, or if this process is in its background."""
    if sys.stderr.isatty():
        return None
    try:
        terminal = open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        return None
    try:
        if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
            return terminal
    except OSError:
        pass
    terminal.close()
    return None


class Progress:
    """Says on a terminal how far make is, from the lines that it prints. A
    terminal that goes away is left alone."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.began = self.said = time.monotonic()
        self.files = 0
        self.say("weir: building from source, which takes some minutes; "
                 "pip install -v shows each step")

    def say(self, text):
        if self.terminal is None:
            return
        try:
            # pip's line has no end yet.
            self.terminal.write(f"\n{text}")
            self.terminal.flush()
        except OSError:
            self.terminal = None

    def count(self):
        return (f"{self.files} file{'' if self.files == 1 else 's'} compiled "
                f"in {time.monotonic() - self.began:.0f} s")

    def see(self, line):
        self.files += line.startswith("  CC ")
        now = time.monotonic()
        if now - self.said >= SAY_EVERY_S:
            self.said = now
            self.say(f"weir: {self.count()}")

    def end(self):
        if self.terminal is not None and self.files > 0:
            self.say(f"weir: built, {self.count()} ")
        if self.terminal is not None:
            self.terminal.close()


def run_make(command):
    """Run make, whose output goes to stderr, and say how far it is. Gives its
    status."""
    progress = Progress(open_terminal())
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8",
                          errors="replace") as process:
        for line in process.stdout:
            sys.stderr.write(line)
            sys.stderr.flush()
            progress.see(line)
    progress.end()
    return process.returncode


def make(*goals):
    """Run make in the tree, with this Python's headers; what it prints goes to
    stderr. Installs nothing on the system: where something is missing, make says
    what, and leaves the command out if it is the command's."""
    if shutil.which("make") is None:
        raise SystemExit("weir is built by GNU make, which is not here")
    if run_make(["make", "-C", TOP, "DEPS=say", f"PYTHON={sys.executable}",
                 *goals]) != 0:
        raise SystemExit("weir could not be built: make, above, says why")


def build_folder():
    """The folder that make builds into."""
    shown = subprocess.run(
        ["make", "-s", "--no-print-directory", "-C", TOP, "DEPS=0",
         "show-build"],
        check=True, stdout=subprocess.PIPE, text=True)
    return os.path.join(TOP, shown.stdout.strip())


def package():
    """Build the package. Gives the folder `weir` is in."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit("weir is built for CPython's stable ABI, which this "
                         "Python without the GIL has not")
    folder = os.environ.get("WEIR_PYTHON_PACKAGE")
    if folder is None:
        make("python")
        folder = os.path.join(build_folder(), "python")
    return folder


def platform_tag(folder):
    """The oldest glibc that the libraries and the command run with, as pip names
    it."""
    needed = 17
    for path in package_files(folder):
        with open(os.path.join(folder, path), "rb") as file:
            content = file.read()
        if content.startswith(b"\x7fELF"):
            for found in re.findall(rb"\0GLIBC_2\.(\d+)(?=[\0.])", content):
                needed = max(needed, int(found))
    return f"manylinux_2_{needed}_{os.uname().machine}"


def read_text(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def metadata():
    """The text of METADATA."""
    readme = read_text(TOP, "README.md")
    return (f"Metadata-Version: 2.1\nName: weir\nVersion: {version()}\n"
            "Summary: A caching GPU memory allocator with stream-ordered reuse\n"
            "License: Apache-2.0\nLicense-File: LICENSE\n"
            "License-File: THIRD-PARTY.txt\nRequires-Python: >=3.9\n"
            "Description-Content-Type: text/markdown\n\n" + readme)


def info_files(tag, folder):
    """Name and text of each file of the .dist-info folder but RECORD."""
    return {
        "METADATA": metadata(),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: weir\n"
                 f"Root-Is-Purelib: false\nTag: {tag}\n",
        "LICENSE": read_text(folder, "weir", "LICENSE"),
        "THIRD-PARTY.txt": read_text(folder, "weir", "THIRD-PARTY.txt"),
        "entry_points.txt": ENTRIES,
    }


def write_member(archive, name, content, mode=0o644):
    """Put a file into a wheel, always with the same time. Gives its line of
    RECORD."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"{name},sha256={digest.decode().rstrip('=')},{len(content)}\n"


def package_files(folder):
    """Paths of the package's files, relative to the folder it is in."""
    yield "_weir_autoload.py"
    yield "_weir_command.py"
    yield "weir.pth"
    for path, folders, names in os.walk(os.path.join(folder, "weir")):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(names):
            yield os.path.relpath(os.path.join(path, name), folder)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: what pip wants to know before it builds. Gives the folder's name."""
    info = f"weir-{version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, info), exist_ok=True)
    for name, text in (("METADATA", metadata()), ("entry_points.txt", ENTRIES)):
        with open(os.path.join(metadata_directory, info, name), "w",
                  encoding="utf-8") as file:
            file.write(text)
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: make a wheel. Gives its name."""
    folder = package()
    tag = f"cp39-abi3-{platform_tag(folder)}"
    name = f"weir-{version()}-{tag}.whl"
    info = f"weir-{version()}.dist-info"
    record = ""
    os.makedirs(wheel_directory, exist_ok=True)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        for path in package_files(folder):
            with open(os.path.join(folder, path), "rb") as file:
                content = file.read()
            mode = 0o755 if ".so" in path or "/bin/" in path else 0o644
            record += write_member(archive, path, content, mode)
        for file_name, text in info_files(tag, folder).items():
            record += write_member(archive, f"{info}/{file_name}",
                                   text.encode())
        record += f"{info}/RECORD,,\n"
        write_member(archive, f"{info}/RECORD", record.encode())
    return name


def sources():
    """What a source distribution contains: the files that git knows, or without
    git all that lies here."""
    try:
        listed = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], check=True,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL).stdout
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = sorted(os.listdir(TOP))
    return [name for name in names if not name.startswith(".") and
            name.split("/")[0] not in LEFT_OUT and
            os.path.exists(os.path.join(TOP, name))]


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: make a source distribution. Gives its name."""
    base = f"weir-{version()}"
    name = f"{base}.tar.gz"

    def keep(member):
        parts = member.name.split("/")
        return None if {"__pycache__", "node_modules"} & set(parts) else member

    with tarfile.open(os.path.join(sdist_directory, name), "w:gz",
                      format=tarfile.PAX_FORMAT) as archive:
        for source in sources():
            archive.add(os.path.join(TOP, source), f"{base}/{source}",
                        filter=keep)
        page = os.path.join(TOP, "build/viewer/page.html")
        if os.path.exists(page) and os.path.getsize(page) > 0:
            archive.add(page, f"{base}/tools/viewer/page.html")
        info = os.path.join(sdist_directory, "PKG-INFO")
        with open(info, "w") as file:
            file.write(metadata())
        archive.add(info, f"{base}/PKG-INFO")
        os.unlink(info)
    return name


def get_requires_for_build_wheel(config_settings=None):
    """PEP 517: nothing."""
    return []


def get_requires_for_build_sdist(config_settings=None):
    """PEP 517: nothing."""
    return []


def main(arguments):
    """Make a wheel into a folder and print its path."""
    if len(arguments) != 1:
        sys.exit(__doc__)
    print(os.path.join(arguments[0], build_wheel(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
