"""ONNX Runtime on weir: options of its CUDA execution provider.

    import onnxruntime, weir.onnxruntime
    options = weir.onnxruntime.provider_options(device_id=0)
    session = onnxruntime.InferenceSession(
        "model.onnx", providers=[("CUDAExecutionProvider", options)])

ONNX Runtime calls weir from C then, without the GIL, and uses no arena of its
own. It names no stream: memory may be used on all streams at once, and serves
again when the work submitted before its free is done. Nothing waits.
"""

from . import _weir

__all__ = ["provider_options"]


def provider_options(**options):
    """A dict of options for CUDAExecutionProvider: weir's three functions, and
    the given options, as device_id. Raises ValueError for an option that weir
    sets. The functions stay valid for the life of the process."""
    own = _weir._onnxruntime_options()
    twice = sorted(own.keys() & options.keys())
    if twice:
        raise ValueError(f"{twice[0]} is weir's to set")
    return {**options, **own}
