"""Standard output and standard error: lines of the error log, with the details of the request that they belong to."""

import contextvars
import io
import os

from tsubame_frames import ERROR

# What sends the log of the request that is served here: in this thread, or in this task of an event loop.
current = contextvars.ContextVar("current", default=None)


class Log(io.TextIOBase):
    """A stream into the error log. What no request's thread writes goes to the process's own standard error."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, name, descriptor):
        self.name = name
        self.outside = open(descriptor, "w", buffering=1, encoding=self.encoding, errors=self.errors, closefd=False)

    def writable(self):
        return True

    def write(self, text):
        request = current.get()
        if request is None or not request.write(ERROR, text.encode(self.encoding, self.errors)):
            self.outside.write(text)
        return len(text)

    def flush(self):
        self.outside.flush()

    def fileno(self):
        return self.outside.fileno()


def message(text):
    """A message of this program about an application, as in mod_wsgi."""
    return ("mod_wsgi (pid=%d): %s\n" % (os.getpid(), text.rstrip("\n"))).encode("utf-8", "backslashreplace")
