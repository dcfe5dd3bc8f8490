"""Standard output and standard error: lines of the error log, with the details of the request that they belong to."""

import io
import threading

from tsubame_frames import ERROR

# The connection whose request this thread serves.
current = threading.local()


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
        connection = getattr(current, "connection", None)
        if connection is None or not connection.write(ERROR, text.encode(self.encoding, self.errors)):
            self.outside.write(text)
        return len(text)

    def flush(self):
        self.outside.flush()

    def fileno(self):
        return self.outside.fileno()
