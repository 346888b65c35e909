"""Tensors in files, in the safetensors format."""

from . import _weir
from ._tensor import asarray


class Loaded(dict):
    """What load() gives: a dict from names to tensors.

    metadata: the texts that were saved with them, a dict. opaque: a dict from
    the names of tensors that weir cannot describe to type and shape as the
    file states them, as ('F4', (2, 4)). Such a tensor is the bytes of the
    file, uint8 in one dimension, and is saved as such.
    """

    def __init__(self, pairs, metadata, opaque):
        super().__init__(pairs)
        self.metadata = metadata
        self.opaque = opaque


def _bar(progress, what):
    """The callback for a progress argument: True is tqdm's bar if that is
    installed."""
    if progress is not True:
        return progress or None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bar = tqdm(desc=what, unit="B", unit_scale=True)

    def update(done, total):
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return update


def save(path, tensors, *, metadata=None, progress=None):
    """Write tensors to a file in the safetensors format, which every framework
    reads. The file appears complete or not at all, with mode 0600.

    tensors: a dict from names to tensors, or to what asarray() takes. Tensors
    that share memory share it again after loading; each byte is written once.
    metadata: a dict of texts. progress: called as progress(done, total) with
    bytes, or True for a bar if tqdm is installed; what it raises is raised
    when the file is written.

    Elements are read after all work that is known of on each tensor. Raises
    FileError, an OSError, if the file cannot be written; InvalidArgumentError
    for a name that is wrong.
    """
    names = tuple(tensors)
    values = tuple(asarray(tensors[name]) for name in names)
    texts = [text for pair in (metadata or {}).items() for text in pair]
    _weir._save(path, names, values, tuple(texts), _bar(progress, "save"))


def load(path, place=None, *, map=None, progress=None):
    """Read all tensors of a file in the safetensors format.

    place: where they go: 'cuda:1', 'pinned', 'cpu'; None is where they were
    when they were saved, or the current device if the file does not say. map:
    a dict from saved places to wanted ones, as {'cuda:1': 'cuda:0'}. progress:
    as for save().

    Gives a dict from names to tensors with the attributes `metadata` and
    `opaque` (types and shapes of tensors of four- or six-bit elements, which
    are here as their bytes). They are
    complete, and may be used on any stream. A file is checked before memory is
    allocated for it: raises FileError, an OSError, for one that cannot be read
    or is not in the format; NoDeviceError for a saved place that is not here.
    """
    if place is not None and map:
        raise ValueError("give place or map, not both")
    texts = tuple(text for pair in (map or {}).items() for text in pair)
    return Loaded(*_weir._load(path, place, texts, _bar(progress, "load")))
