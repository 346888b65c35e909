"""Reports: a table of the statistics, and a snapshot as objects."""

from . import _weir


def _size(count):
    """Bytes in the largest unit that leaves at least one of it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"


_ROWS = (
    ("Allocated memory", "allocated_bytes", _size),
    ("Active memory", "active_bytes", _size),
    ("Requested memory", "requested_bytes", _size),
    ("Reserved memory", "reserved_bytes", _size),
    ("Inactive split memory", "inactive_split_bytes", _size),
    ("Allocations", "allocation", str),
    ("Active blocks", "active", str),
    ("Segments", "segment", str),
    ("Inactive split blocks", "inactive_split", str),
)
_COLUMNS = ("", "now", "peak", "allocated", "freed")
_LINE = "| {:<22} | {:>11} | {:>11} | {:>11} | {:>11} |"


class _Summary(str):
    """A table in text, which a notebook shows as a table."""

    __slots__ = ("_title", "_facts", "_rows")

    def __new__(cls, text, title, facts, rows):
        made = super().__new__(cls, text)
        made._title, made._facts, made._rows = title, facts, rows
        return made

    def __reduce__(self):
        return str, (str(self),)

    def _repr_html_(self):
        from html import escape

        head = "".join(f"<th>{escape(text)}</th>" for text in _COLUMNS)
        body = "".join(
            "<tr><th>{}</th>{}</tr>".format(escape(label), "".join(
                f"<td>{escape(value)}</td>" for value in values))
            for label, *values in self._rows)
        return (f"<table><caption>{escape(self._title)}<br>"
                f"{escape(self._facts)}</caption>"
                f"<tr>{head}</tr>{body}</table>")


def memory_summary(device=None, abbreviated=False):
    """The statistics of a device as a table in text; a notebook shows it as a
    table.

    device: a number, "cuda:N" or None. abbreviated: without the rows of small
    and large pools. The columns are the current value, the peak since peaks
    were reset, and the sums allocated and freed since sums were reset.
    """
    stats = _weir.stats(device)
    free, total = _weir.memory_info(device)
    bound = _weir.limit(device)
    rule = "|" + "-" * 80 + "|"
    heading = ("weir memory summary, device "
               + ("current" if device is None else str(device)))
    facts = (f"OOMs: {stats['num_ooms']}   "
             f"retries: {stats['num_alloc_retries']}   "
             f"host waits: {stats['num_host_waits']}   "
             f"pending: {_size(stats['pending_bytes'])}",
             f"free: {_size(free)} of {_size(total)}   limit: "
             + ("none" if bound is None else _size(bound)))
    lines = [rule, f"|{heading:^80}|", rule, *(f"|{fact:^80}|" for fact in facts),
             rule, _LINE.format(*_COLUMNS), rule]
    rows = []
    pools = ("all",) if abbreviated else ("all", "large_pool", "small_pool")
    for title, name, form in _ROWS:
        for pool in pools:
            label = title if pool == "all" else "    " + pool.replace("_", " ")
            values = (form(stats[f"{name}.{pool}.{part}"])
                      for part in ("current", "peak", "allocated", "freed"))
            rows.append((label, *values))
            lines.append(_LINE.format(*rows[-1]))
    lines.append(rule)
    return _Summary("\n".join(lines), heading, "   ".join(facts), rows)


def snapshot(device=None, *, stream=None, pool=None, trace=True):
    """All segments, blocks, statistics and the history, as Python objects.

    The dict has the keys of PyTorch's torch.cuda.memory._snapshot():
    'segments', 'device_traces', 'allocator_settings', 'external_annotations'.
    Further keys have more data of weir. device: None means all devices.
    stream, pool: only segments in which they have blocks. trace: include the
    history. weir.snapshot_write() writes this to a file.
    """
    import os
    import pickle
    import tempfile

    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        path = os.path.join(folder, "snapshot.pickle")
        _weir.snapshot_write(path, device=device, stream=stream, pool=pool,
                             trace=trace)
        with open(path, "rb") as file:
            return pickle.load(file)
