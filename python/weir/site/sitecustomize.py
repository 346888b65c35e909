"""Put on PYTHONPATH by `weir run --torch`: lets weir be PyTorch's allocator as
soon as the program imports torch. The program's own sitecustomize follows.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_packages = os.path.dirname(os.path.dirname(_here))


def _begin():
    name = "_weir_autoload"
    if name in sys.modules:
        return  # this Python has a weir of its own, by weir.pth
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(_packages, name + ".py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.begin(_packages)


def _follow():
    """The sitecustomize that this one stands before."""
    places = [p for p in sys.path if os.path.abspath(p or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("WEIR_TORCH", "0") not in ("", "0"):
    _begin()
_follow()
