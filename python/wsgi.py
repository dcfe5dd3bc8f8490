"""Applications with the interface of PEP 3333."""

import io
import os
import sys

import tsubame_access as access
import tsubame_log as log
import tsubame_script as script
from tsubame_frames import CONTENT_MAX, ERROR, OUTPUT, Gone, end_of, header


class Errors(io.TextIOBase):
    """`wsgi.errors`: a stream into the error log, with the details of the request."""

    encoding = "utf-8"

    def __init__(self, connection):
        self.connection = connection

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        connection = self.connection
        if connection is None or not connection.write(ERROR, text.encode("utf-8", "backslashreplace")):
            # A thread of the application has outlived the request.
            sys.stderr.write(text)
        return len(text)


class Expired(RuntimeError):
    """The application goes on with a request that is over."""

    def __init__(self):
        RuntimeError.__init__(self, "the request is over")


class Input:
    """`wsgi.input`: the body of the request, which arrives while the application reads it."""

    pieces = b""
    ended = False
    # Whether somebody reads from the connection.
    reading = False

    def __init__(self, connection):
        self.connection = connection

    def receive(self):
        """The next piece of the body."""
        connection = self.connection
        if connection is None:
            raise Expired
        self.reading = True
        piece = connection.body()
        self.reading = False
        return piece

    def more(self):
        """Receives another piece, and returns whether there was one."""
        piece = b"" if self.ended else self.receive()
        self.ended = not piece
        self.pieces += piece
        return not self.ended

    def take(self, length):
        taken, self.pieces = self.pieces[:length], self.pieces[length:]
        return taken

    def read(self, size=-1):
        if size is None or size < 0:
            parts = [self.take(len(self.pieces))]
            while not self.ended:
                parts.append(self.receive())
                self.ended = not parts[-1]
            return b"".join(parts)
        parts = []
        while size > 0 and (self.pieces or self.more()):
            parts.append(self.take(size))
            size -= len(parts[-1])
        return b"".join(parts)

    def readline(self, size=-1):
        limit = size if size is not None and size >= 0 else None
        searched = 0
        while limit is None or len(self.pieces) < limit:
            end = self.pieces.find(b"\n", searched)
            if end >= 0:
                return self.take(end + 1 if limit is None else min(end + 1, limit))
            searched = len(self.pieces)
            if not self.more():
                return self.take(searched)
        end = self.pieces.find(b"\n", 0, limit)
        return self.take(end + 1 if end >= 0 else limit)

    def readlines(self, hint=-1):
        lines, length = [], 0
        for line in self:
            lines.append(line)
            length += len(line)
            if hint is not None and 0 < hint <= length:
                break
        return lines

    def __iter__(self):
        return iter(self.readline, b"")


class FileWrapper:
    """`wsgi.file_wrapper`: a file as a response."""

    def __init__(self, file, block_size=8192):
        self.filelike = file
        self.blksize = block_size
        if hasattr(file, "close"):
            self.close = file.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.filelike.read(self.blksize)
        if data:
            return data
        raise StopIteration

    def place(self):
        """The file's descriptor and position, if it is one that the kernel can read. None: it is something else."""
        file = self.filelike
        if not isinstance(file, (io.FileIO, io.BufferedReader, io.BufferedRandom)):
            return None
        try:
            descriptor, offset = file.fileno(), file.tell()
            os.lseek(descriptor, 0, os.SEEK_CUR)
            return descriptor, offset
        except (OSError, ValueError):
            return None


class Response:
    """A response on its way: its head waits for the first piece of the body."""

    head = None
    sent = False

    def __init__(self, connection):
        self.connection = connection

    def start(self, status, headers, exc_info=None):
        """`start_response`."""
        if exc_info:
            try:
                if self.sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.sent:
            # As in mod_wsgi: a second call is fine until the first piece of the body.
            raise AssertionError("headers have already been sent")
        try:
            key = status, *headers
            self.head = heads.get(key) or make_head(key, status, headers)
        except TypeError:
            raise TypeError("the status and the header fields must be str: %r" % ((status, headers),)) from None
        return self.write

    def write(self, data):
        """Sends a piece of the body, after the head."""
        if self.head is None:
            raise AssertionError("start_response() has not been called")
        if self.connection is None:
            raise Expired
        if not self.sent:
            self.sent = True
            data = b"%s\r\n%s" % (self.head.text, data)
        if data:
            self.connection.write(OUTPUT, data)

    def finish(self, data, end_of_head):
        """Sends all of the body at once, and ends the request."""
        head = self.head.text
        length = len(head) + len(end_of_head) + len(data)
        self.sent = True
        if length > CONTENT_MAX:
            self.connection.write(OUTPUT, head + end_of_head)
            self.connection.write(OUTPUT, data)
            self.connection.end(b"")
            return
        self.connection.end(b"".join((header(OUTPUT, length), head, end_of_head, data)))


# The heads of the last responses, by status and fields. Applications repeat them.
heads = {}
HEADS_MAX = 256
# Responses with these statuses have no body whose length could be told (RFC 9110 section 6.4.1).
WITHOUT_BODY = (b"204", b"304")


class Head:
    """The head of a response, up to the line that ends it."""

    __slots__ = ("text", "may_tell_length")

    def __init__(self, text):
        self.text = text
        # As PEP 3333 allows, unless the application has told it.
        self.may_tell_length = text[8:11] not in WITHOUT_BODY and b"\ncontent-length:" not in text.lower()

    def end(self, length):
        """The end of the head, perhaps with a field that tells the length of the body."""
        return b"Content-Length: %d\r\n\r\n" % length if self.may_tell_length else b"\r\n"


def make_head(key, status, headers):
    """The head of a response with this status and these fields."""
    if len(status) < 4 or not status[:3].isdigit() or status[3] != " ":
        raise ValueError("status message %r is not three digits, a space and a reason" % (status,))
    if status < "200":
        raise ValueError("%r is not the status of a final response" % (status,))
    text = "Status: " + status + "\r\n" + "".join([name + ": " + value + "\r\n" for name, value in headers])
    lines = len(headers) + 1
    if text.count("\n") != lines or text.count("\r") != lines or "\0" in text:
        raise ValueError("a header field contains a line break: %r" % (headers,))
    made = Head(text.encode("latin-1"))
    if len(heads) >= HEADS_MAX:
        heads.clear()
    heads[key] = made
    return made


class Application:
    """Answers the requests of one connection."""

    def __init__(self, connection, process):
        self.connection = connection
        self.process = process
        self.handler = None
        self.template = None
        self.call = None

    def prepare(self, handler):
        """Loads the application of a handler, and writes down what all of its requests have in common."""
        self.handler = None
        if handler["handler"] == "wsgi":
            self.call = script.application(handler["file"], handler["callable"])
        else:
            self.call = access.application(handler)
        self.template = {
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.multithread": self.process.shared,
            "wsgi.multiprocess": handler["processes"] != "1",
            "wsgi.run_once": False,
            "wsgi.file_wrapper": FileWrapper,
            "wsgi.input_terminated": True,
            "apache.version": (2, 4, 71),
            "mod_wsgi.version": (4, 9, 4),
            "mod_wsgi.process_group": handler["process_group"],
            "mod_wsgi.application_group": handler["application_group"],
            "mod_wsgi.callable_object": handler["callable"],
            "mod_wsgi.request_handler": "wsgi-script",
            "mod_wsgi.handler_script": "",
            "mod_wsgi.script_reloading": handler["reloading"],
            "mod_wsgi.enable_sendfile": handler["sendfile"],
            "mod_wsgi.ignore_activity": "0",
            "mod_wsgi.listener_host": handler["listener_host"],
            "mod_wsgi.listener_port": handler["listener_port"],
        }
        self.handler = handler

    def serve(self, handler, fields):
        """Answers a request."""
        connection = self.connection
        response = Response(connection)
        body = Input(connection)
        errors = Errors(connection)
        connection.busy = True
        try:
            if handler is not self.handler:
                self.prepare(handler)
            environ = self.template.copy()
            field = iter(fields)
            environ.update(zip(field, field))
            environ["wsgi.input"] = body
            environ["wsgi.errors"] = errors
            environ["mod_wsgi.script_name"] = environ["SCRIPT_NAME"]
            environ["mod_wsgi.path_info"] = environ["PATH_INFO"]
            if environ["REQUEST_SCHEME"] == "https":
                environ["wsgi.url_scheme"] = "https"
            if handler["head"] == "get" and environ["REQUEST_METHOD"] == "HEAD":
                environ["REQUEST_METHOD"] = "GET"
            result = self.call(environ, response.start)
            if type(result) is list:
                self.deliver_pieces(response, result)
            else:
                try:
                    self.deliver(response, result)
                finally:
                    if hasattr(result, "close"):
                        self.close(result, handler)
            # Only now: what close() does belongs to the request, too.
            if connection.busy:
                connection.end(b"")
        except Gone:
            raise
        except script.NotLoaded as problem:
            # As in mod_wsgi, whose processes of a group have no other status than 500.
            self.fail(response, str(problem), 500 if handler["process_group"] else problem.status)
        except SystemExit as problem:
            text = "SystemExit exception raised by WSGI script '%s' ignored.\n" % handler["file"]
            self.fail(response, text + script.formatted(problem), 500)
        except BaseException as problem:
            # The application's own connections may break, too: of a database, for example.
            if isinstance(problem, (BrokenPipeError, ConnectionResetError)) and script.is_from_here(problem):
                raise Gone from None
            self.fail(response, self.occurred(handler) + script.formatted(problem), 500)
        finally:
            response.connection = body.connection = errors.connection = None
            if body.reading:
                # A thread of the application has outlived the request, and would take parts of the next one.
                raise Gone

    def deliver(self, response, result):
        """Sends what the application has returned; all but the end, unless that goes with it."""
        kind = type(result)
        if kind is tuple:
            self.deliver_pieces(response, result)
        elif kind is FileWrapper and not response.sent and response.head is not None and result.place():
            descriptor, offset = result.place()
            self.send_file(response, descriptor, offset)
        else:
            for data in result:
                if data:
                    response.write(data)
            if not response.sent:
                response.write(b"")

    def deliver_pieces(self, response, pieces):
        """Sends a body that is there as a whole."""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if response.sent:
            response.write(data)
        elif response.head is None:
            raise AssertionError("start_response() has not been called")
        else:
            response.finish(data, response.head.end(len(data)) if len(pieces) == 1 else b"\r\n")

    def send_file(self, response, descriptor, offset):
        """Sends the rest of a file, with its length, unless the application has told another one."""
        length = max(os.fstat(descriptor).st_size - offset, 0)
        response.head = Head(response.head.text + response.head.end(length)[:-2])
        response.write(b"")
        self.connection.write_file(descriptor, offset, length)

    def close(self, result, handler):
        """Lets the application end its work. The response is what it is by now, whatever goes wrong."""
        try:
            result.close()
        except BaseException as problem:
            self.report(self.occurred(handler) + script.formatted(problem))

    def report(self, text):
        self.connection.write(ERROR, log.message(text))

    def occurred(self, handler):
        return "Exception occurred processing WSGI script '%s'.\n" % handler["file"]

    def fail(self, response, text, status):
        """Logs why there is no response, or no whole one."""
        self.report(text)
        if response.sent:
            self.connection.end(b"", end_of(status=1, error="the application failed in the middle of its response"))
        else:
            # Together: an end that came later would leave an empty page.
            head = b"Status: %d\r\n\r\n" % status
            self.connection.end(header(OUTPUT, len(head)) + head, end_of(status=0, http=status))
