"""Forecasts of a PyTorch program's memory: weir.torch.fit() records the runs, and
the command `weir fit` compares them."""

import contextlib
import gc
import json
import os
import shutil
import subprocess
import tempfile

# Events of a run that PyTorch keeps. It drops the oldest ones of a longer run.
_EVENTS = 2_000_000

_DEFAULTS = {"limit": None, "context": None, "largest": None,
             "allocators": (), "steps": 3, "keep": None}


class FitError(RuntimeError):
    """The forecast failed; the text is the command's complaint."""


class Forecast:
    """The answer of `weir fit`.

    asked            the sizes
    peak_live_bytes  with the range `peak_live_range`
    by_kind          bytes at the peak: parameters, activations and so on
    allocators       {name: {"peak_held_bytes": ..., "fits": ...}}
    answer           the whole object that the command prints (docs/json.md)
    """

    def __init__(self, answer):
        self.answer = answer
        self.asked = answer["asked"]
        self.peak_live_bytes = answer["peak_live_bytes"]
        self.peak_live_range = (answer["peak_live_low_bytes"],
                                answer["peak_live_high_bytes"])
        self.by_kind = answer["by_kind"]
        self.allocators = {row["allocator"]: row
                           for row in answer["allocators"]}

    def __repr__(self):
        return f"<Forecast {_sizes_text(self.asked)}>"

    def __str__(self):
        lines = [f"{_sizes_text(self.asked)}: "
                 f"{_mib(self.peak_live_bytes)} live at the peak"]
        for name, row in self.allocators.items():
            line = f"  {name}: holds {_mib(row['peak_held_bytes'])}"
            if "fits" in row:
                line += (", does not fit" if not row["fits"] else
                         f", fits with {row['retries']} retries or waits"
                         if row["retries"] else ", fits")
            if "largest" in row:
                line += f", at most {row['largest']}"
                line += " or more" if row["largest_or_more"] else ""
            lines.append(line)
        return "\n".join(lines)


def _sizes_text(sizes):
    return ", ".join(f"{name}={value:g}" for name, value in sizes.items())


def _mib(size):
    return f"{size / (1 << 20):.2f} MiB"


def _command():
    """The path of `weir`: that of the package, or one in PATH."""
    from _weir_command import find

    command = find()
    if os.access(command, os.X_OK):
        return command
    command = shutil.which("weir")
    if command is None:
        raise FitError("weir.torch.fit(): the command weir is not there; this "
                       "package was built without it")
    return command


def _checked(options):
    """The options, and the sizes among them."""
    chosen = dict(_DEFAULTS)
    sizes = {}
    for name, value in options.items():
        if name in chosen:
            chosen[name] = value
            continue
        try:
            sizes[name] = [float(number) for number in value]
        except (TypeError, ValueError):
            raise ValueError(f"weir.torch.fit(): {name} is a list of numbers, "
                             f"not {value!r}") from None
        sizes[name] = list(value)
    if not sizes:
        raise ValueError("weir.torch.fit(): no sizes, such as batch=[2, 4]")
    counts = {len(values) for values in sizes.values()}
    if len(counts) != 1 or counts.pop() < 2:
        raise ValueError("weir.torch.fit(): each size has the same number of "
                         "values, at least two")
    if chosen["steps"] < 1:
        raise ValueError("weir.torch.fit(): steps is at least 1")
    return chosen, sizes


def _asked(ask, sizes):
    if isinstance(ask, dict):
        unknown = [name for name in ask if name not in sizes]
        if unknown:
            raise ValueError(f"weir.torch.fit(): ask has {unknown[0]!r}, and "
                             "no size has this name")
        return ask
    if len(sizes) != 1:
        raise ValueError("weir.torch.fit(): with several sizes ask is "
                         "{name: number}")
    return {next(iter(sizes)): ask}


@contextlib.contextmanager
def _history(torch):
    """PyTorch's memory history is recorded."""
    memory = torch.cuda.memory
    memory._record_memory_history(enabled=None)
    memory._record_memory_history(max_entries=_EVENTS, stacks="python")
    try:
        yield
    finally:
        memory._record_memory_history(enabled=None)


def _record(torch, step, size, steps, path):
    """Run the step with sizes by name, and write the recording. A first run is
    not recorded: it drops what the sizes before have left, and makes what stays
    for all steps, so that this is older than the recording at each size."""
    step(**size)
    gc.collect()
    torch.cuda.empty_cache()
    with _history(torch):
        for _ in range(steps):
            step(**size)
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(path)


def _arguments(chosen, sizes, asked):
    arguments = ["fit", "--json"]
    for name, values in sizes.items():
        arguments += ["--was", f"{name}=" + ",".join(map(str, values))]
    arguments += ["--ask", ",".join(f"{name}={value}"
                                    for name, value in asked.items())]
    for name in ("limit", "context", "largest"):
        if chosen[name] is not None:
            arguments += [f"--{name}", str(chosen[name])]
    for name in chosen["allocators"]:
        arguments += ["--as", name]
    return arguments


def _run(arguments):
    done = subprocess.run([_command(), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise FitError("weir.torch.fit(): " + (
            done.stderr.strip() or f"weir ended with {done.returncode}"))
    return Forecast(json.loads(done.stdout))


def forecast(torch, step, ask, options):
    """As weir.torch.fit(), with the module torch."""
    chosen, sizes = _checked(options)
    asked = _asked(ask, sizes)
    _command()
    with contextlib.ExitStack() as stack:
        folder = chosen["keep"]
        if folder is None:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="weir-fit-"))
        os.makedirs(folder, exist_ok=True)
        paths = []
        for values in zip(*sizes.values()):
            size = dict(zip(sizes, values))
            text = "-".join(f"{name}.{value}" for name, value in size.items())
            paths.append(os.path.join(folder, text + ".pickle"))
            _record(torch, step, size, chosen["steps"], paths[-1])
        return _run(_arguments(chosen, sizes, asked) + ["--", *paths])
