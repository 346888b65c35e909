"""Device memory in pytest: a limit, and what each test needed.

    pytest --weir-limit=2G       # as if the device had 2 GiB
    pytest --weir-report[=N]     # the N tests with the highest peaks (10)

A request beyond the limit raises OutOfMemoryError on the line of the test that
makes it, after weir has given back what is idle. A test can have a limit of its
own:

    @pytest.mark.weir(limit="500M")
    def test_small(): ...

The limit is that of each device, and counts what weir holds from the driver. It
holds for what weir serves: its own functions, and PyTorch, CuPy or Numba if weir
is their allocator, as after weir.torch.install() in conftest.py.

With --weir-report each test's report has the properties weir_peak_bytes, the
most live bytes on one device while it ran, and weir_left_bytes, what is live
after it and was not before; --junit-xml writes them. Live bytes of fixtures
count in the test that first asks for them.

pytest loads this by itself where weir was installed by pip; elsewhere
`-p weir.pytest_plugin` does. The driver is loaded only if one of the options, or
a mark, asks for it.
"""

import gc
import re

import pytest

import weir

from ._report import _size

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(text):
    """A size: a number of bytes, or "500M", "2G" (powers of 1024)."""
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", str(text).strip(), re.I)
    if found is None or int(found[1]) == 0:
        raise ValueError(f"{text!r} is no size, such as 2G")
    return int(found[1]) << _UNITS[found[2].upper()]


def pytest_addoption(parser):
    group = parser.getgroup("weir", "device memory")
    group.addoption("--weir-limit", metavar="SIZE", default=None,
                    help="the device memory that tests may hold, such as 2G")
    group.addoption("--weir-report", metavar="N", nargs="?", type=int, const=10,
                    default=None,
                    help="list the N tests with the highest peaks of device "
                         "memory (10)")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "weir(limit): the device memory that the test may hold, "
                   "such as '500M'")
    limit = config.getoption("--weir-limit")
    try:
        limit = None if limit is None else _bytes(limit)
    except ValueError as error:
        raise pytest.UsageError(f"--weir-limit: {error}") from None
    config.pluginmanager.register(
        _Tests(limit, config.getoption("--weir-report")), "weir-tests")


class _Tests:
    """What the tests of one session need."""

    def __init__(self, limit, shown):
        self.limit = limit
        self.shown = shown
        self.rows = []  # peak, left, name of the test

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        mark = item.get_closest_marker("weir")
        limit = self.limit
        if mark is not None and "limit" in mark.kwargs:
            limit = _bytes(mark.kwargs["limit"])
        if limit is None and self.shown is None:
            yield
            return
        devices = range(weir.device_count())
        bounds = [weir.limit(device) for device in devices]
        self.before = [_live(device) for device in devices]
        for device in devices:
            weir.reset_peak_stats(device)
            if limit is not None:
                _bound(limit, device)
        yield
        if limit is not None:
            for device in devices:
                weir.set_limit(bounds[device], device)

    # After the teardown, when the test's own fixtures are gone.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        if self.shown is not None and call.when == "teardown":
            gc.collect()
            peak = max((weir.stats(device)["allocated_bytes.all.peak"]
                        for device in range(len(self.before))), default=0)
            left = sum(_live(device) - live
                       for device, live in enumerate(self.before))
            item.user_properties += [("weir_peak_bytes", peak),
                                     ("weir_left_bytes", left)]
            self.rows.append((peak, left, item.nodeid))
        yield

    def pytest_terminal_summary(self, terminalreporter):
        if self.shown is None:
            return
        terminalreporter.section("device memory of tests")
        terminalreporter.line(f"{'peak':>11} {'left':>11}  test")
        for peak, left, name in sorted(self.rows, reverse=True)[:self.shown]:
            terminalreporter.line(f"{_size(peak):>11} {_size(left):>11}  {name}")


def _bound(limit, device):
    """Set a limit. What earlier tests have left cached is no exception."""
    weir.set_limit(limit, device)
    if weir.stats(device)["reserved_bytes.all.current"] > limit:
        weir.trim(device)


def _live(device):
    return weir.stats(device)["allocated_bytes.all.current"]
