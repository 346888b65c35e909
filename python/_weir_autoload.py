"""WEIR_TORCH=1: weir is installed when the program imports torch.

1 or true     where that fails, say so on stderr and go on without weir
require       the import of torch fails then

Python's start calls begin(): by weir.pth where the package is installed, else by
the sitecustomize that `weir run --torch` has put on the path. It stands beside
the package, since importing a part of weir imports weir.
"""

import importlib.util
import os
import sys


class _Loader:
    """A loader that installs weir behind the import of torch."""

    def __init__(self, loader, finder):
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.install()


class Finder:
    """Finds torch once, as others would."""

    def __init__(self, packages):
        self._packages = packages

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def install(self):
        if self._packages and importlib.util.find_spec("weir") is None:
            sys.path.append(self._packages)
        try:
            import weir.torch

            weir.torch.install()
        except Exception as error:
            if os.environ.get("WEIR_TORCH") == "require":
                raise
            print(f"weir: PyTorch keeps its own allocator: {error}",
                  file=sys.stderr)


def begin(packages=None):
    """Install weir when torch is imported, or now if it is already."""
    finder = Finder(packages)
    if "torch" in sys.modules:
        finder.install()
    else:
        sys.meta_path.insert(0, finder)
