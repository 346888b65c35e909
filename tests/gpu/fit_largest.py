"""The largest batch that fits a limit: `weir fit` against real PyTorch runs.

    fit_largest.py BUILD [KIND...]

Each program of fit_record.py is recorded at three small batches. The limit is LIMIT
times what PyTorch held at the largest of them. The batch that `weir fit --largest`
finds for PyTorch's allocator, native and with expandable segments, and for weir is
run under that limit, and so is the least one that would make it more than 5 % too
low. weir serves PyTorch alone then, as the recordings know no other memory. Prints a row for each; the exit status is 1 if the first does not fit or the
second does.
"""

import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 4
BELOW = 0.05
# Where the batch fails, these parts of it are tried.
SMALLER = (0.99, 0.98, 0.97, 0.95, 0.92)
JOBS = 6
SECONDS = 200  # for one run
# Kind, batches, more sizes.
STUDIES = (
    ("dense", (2, 4, 8), ()),
    ("sharded", (2, 4, 8), ()),
    ("checkpointed", (4, 8, 16), ()),
    ("lora", (2, 4, 8), ("hidden=1024",)),
    ("detection", (2, 4, 8), ()),
    ("diffusion", (4, 8, 16), ()),
    ("server", (4, 8, 16), ()),
    ("compiled", (4, 8, 16), ()),
)
EXPANDABLE = "torch,expandable_segments:True"
ALLOCATORS = ("torch", EXPANDABLE, "weir")


def record(build, kind, batch, more, path, allocator="torch", limit=None):
    """Runs the program. Gives whether it fitted, and what PyTorch counted."""
    command = [sys.executable, os.path.join(HERE, "fit_record.py"), "--kind",
               kind, "--set", f"batch={batch}", "-o", path]
    for text in more:
        command += ["--set", text]
    env = dict(os.environ)
    if limit is not None:
        command.append("--no-history")
        if allocator == "weir":
            package = os.path.join(build, "python")
            env["WEIR_CONF"] = f"memory_limit_mb:{limit}"
            env["WEIR_TORCH"] = "require"
            env["PYTHONPATH"] = f"{package}/weir/site:{package}"
        else:
            command += ["--limit-mb", str(limit)]
    if allocator == EXPANDABLE:
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    done = subprocess.run(command, env=env, capture_output=True, text=True,
                          timeout=SECONDS)
    if done.returncode not in (0, 1) or not os.path.exists(path + ".json"):
        raise RuntimeError(f"{kind} {batch} {allocator}: {done.stderr[-400:]}")
    with open(path + ".json") as file:
        found = json.load(file)
    return found["fits"], found


def largest(build, kind, batches, paths, limit):
    """What weir fit finds for each allocator."""
    command = [os.path.join(build, "bin/weir"), "fit", "--json", "--was",
               "batch=" + ",".join(map(str, batches)), "--ask",
               f"batch={2 * batches[-1]}", "--limit", f"{limit}M", "--largest",
               "batch"]
    for allocator in ALLOCATORS:
        command += ["--as", allocator]
    done = subprocess.run(command + paths, capture_output=True, text=True,
                          timeout=SECONDS, check=True)
    return {row["allocator"]: row["largest"]
            for row in json.loads(done.stdout)["allocators"]}


def study(build, folder, kind, batches, more, pool):
    paths = [os.path.join(folder, f"{kind}.{n}.pickle") for n in batches]
    runs = list(pool.map(lambda job: record(build, kind, job[0], more, job[1]),
                         zip(batches, paths)))
    limit = math.ceil(LIMIT * runs[-1][1]["reserved"] / (1 << 20))
    found = largest(build, kind, batches, paths, limit)
    jobs = []
    for allocator in ALLOCATORS:
        value = found[allocator]
        for n in (value, math.floor(value / (1 - BELOW)) + 1):
            path = os.path.join(folder, f"{kind}.{allocator}.{n}")
            jobs.append((allocator, n, pool.submit(
                record, build, kind, n, more, path, allocator, limit)))
    right = True
    for (allocator, low, fits), (_, high, beyond) in zip(jobs[::2], jobs[1::2]):
        (fits, row), beyond = fits.result(), beyond.result()[0]
        right = right and fits and not beyond
        text = ""
        if not fits:
            path = os.path.join(folder, f"{kind}.{allocator}.")
            tries = sorted({int(low * part) for part in SMALLER}, reverse=True)
            found = pool.map(lambda n: record(
                build, kind, n, more, path + str(n), allocator, limit)[0], tries)
            text = " (" + ", ".join(f"{n} {'fits' if fit else 'fails'}"
                                    for n, fit in zip(tries, found)) + ")"
            text += "\n    " + row["error"].replace("\n", " ")[:900]
        print(f"{kind:13s} {limit:6d} MiB  {allocator:31s} {low:5d} "
              f"{'fits' if fits else 'FAILS'}, {high:5d} "
              f"{'FITS' if beyond else 'fails'}{text}", flush=True)
    return right


def main():
    build, kinds = os.path.abspath(sys.argv[1]), sys.argv[2:]
    right = True
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(JOBS) as pool, \
            concurrent.futures.ThreadPoolExecutor(4) as outer:
        studies = [outer.submit(study, build, folder, *row, pool)
                   for row in STUDIES if not kinds or row[0] in kinds]
        for row in studies:
            try:
                right = row.result() and right
            except Exception as error:  # the others go on
                print(error, flush=True)
                right = False
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
