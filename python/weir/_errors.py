"""What weir's exceptions need beyond their classes: FileError is an OSError with
errno, strerror and filename, but its text is weir's."""

from ._weir import FileError, OutOfMemoryError


def _text(self):
    return str(self.args[0]) if len(self.args) == 1 else OSError.__str__(self)


def _reduce(self):
    # OSError keeps these outside of its dict, and gives its arguments only.
    state = {name: getattr(self, name)
             for name in ("errno", "strerror", "filename", "filename2")
             if getattr(self, name) is not None}
    return type(self), self.args, {**self.__dict__, **state}


def rebuild(kind, state, args, *more):
    """Make an adapter's OutOfMemoryError again that was pickled or copied:
    `kind` is made from one of weir's, and takes `more` arguments."""
    told = OutOfMemoryError()
    told.status = None
    error = kind(told, *more)
    error.args = args
    error.__dict__.update(state)
    return error


FileError.__str__ = _text
FileError.__reduce__ = _reduce
