"""Frames between the server and this process, and the requests that they carry (docs/backend-protocol.md)."""

import os
import struct
import threading

HANDLER, ENVIRONMENT, INPUT, OUTPUT, ERROR, LOG, END = range(1, 8)

# The longest content of a frame, in bytes.
CONTENT_MAX = 1 << 20
# How much is read at once. Most requests are shorter.
PIECE = 1 << 16

header = struct.Struct(">II").pack
parse_header = struct.Struct(">II").unpack_from

END_OF_INPUT = header(INPUT, 0)
ENVIRONMENT_FOLLOWS = struct.pack(">I", ENVIRONMENT)
WELL = b"status\0" b"0\0"
END_WELL = header(END, len(WELL)) + WELL


class Gone(Exception):
    """The server has closed the connection: nobody waits for the response any more."""


def texts(content):
    """The names and values of a list, in turn, as PEP 3333 wants strings: one character for each byte."""
    return content[:-1].decode("latin-1").split("\0") if content else []


class Connection:
    """A connection to the server, and the request that it carries at the moment."""

    __slots__ = ("socket", "receive", "send", "lock", "busy", "buffer", "at", "known", "handler", "open")

    def __init__(self, socket):
        self.socket = socket
        self.receive = socket.recv
        self.send = socket.sendall
        # Held while frames are sent: an application may have threads of its own, which write to its log.
        self.lock = threading.Lock()
        # Whether a request is being answered. Before and after, nothing may be sent.
        self.busy = False
        # What has arrived; what was used of it ends at `at`.
        self.buffer = b""
        self.at = 0
        # The frame HANDLER of the last request, up to the length of the frame that follows, and what it says: most
        # requests begin with that very frame.
        self.known = None
        self.handler = None
        # Whether more of the body may come.
        self.open = False

    def request(self):
        """Waits for a request: its handler's fields and its environment, names and values in turn. None: no more come."""
        if self.open:
            self.skip_body()
        if self.at == len(self.buffer):
            data = self.receive(PIECE)
            if not data:
                return None
            known = self.known
            if known and data.startswith(known):
                start = len(known) + 4
                end = start + int.from_bytes(data[len(known):start], "big")
                if data[end:] == END_OF_INPUT:
                    self.buffer = b""
                    self.at = 0
                    return self.handler, texts(data[start:end])
            self.buffer = data
            self.at = 0
        return self.next_request()

    def next_request(self):
        """A request that has not arrived in one piece, or has a body, or another handler than the last one."""
        try:
            kind, content = self.frame()
            while kind != HANDLER:
                kind, content = self.frame()
        except Gone:
            return None
        whole = header(HANDLER, len(content)) + content + ENVIRONMENT_FOLLOWS
        if whole != self.known:
            fields = texts(content)
            self.handler = dict(zip(fields[::2], fields[1::2]))
            self.known = whole
        kind, content = self.frame()
        while kind != ENVIRONMENT:
            kind, content = self.frame()
        self.open = True
        if self.buffer[self.at:self.at + 8] == END_OF_INPUT:
            self.at += 8
            self.open = False
        return self.handler, texts(content)

    def body(self):
        """The next piece of the body; empty at its end."""
        while self.open:
            kind, content = self.frame()
            if kind == INPUT:
                self.open = bool(content)
                return content
        return b""

    def skip_body(self):
        while self.open:
            self.body()

    def frame(self):
        """The next frame: its type and its content."""
        self.need(8)
        kind, length = parse_header(self.buffer, self.at)
        if length > CONTENT_MAX:
            raise Gone
        self.at += 8
        self.need(length)
        content = self.buffer[self.at:self.at + length]
        self.at += length
        return kind, content

    def need(self, length):
        """Reads until so many unused bytes are there."""
        missing = length - (len(self.buffer) - self.at)
        if missing <= 0:
            return
        pieces = [self.buffer[self.at:]]
        while missing > 0:
            piece = self.receive(max(missing, PIECE))
            if not piece:
                raise Gone
            pieces.append(piece)
            missing -= len(piece)
        self.buffer = b"".join(pieces)
        self.at = 0

    def write(self, kind, data):
        """Sends data of any length as frames of a type. Returns whether there is a request that it can belong to."""
        with self.lock:
            if not self.busy:
                return False
            if len(data) <= CONTENT_MAX:
                self.send(header(kind, len(data)) + data)
                return True
            view = memoryview(data)
            for start in range(0, len(data), CONTENT_MAX):
                part = view[start:start + CONTENT_MAX]
                self.send(header(kind, len(part)))
                self.send(part)
            return True

    def write_file(self, descriptor, offset, count):
        """Sends a part of a file as output: the kernel copies it. Whatever keeps it from being sent as a whole, ends the
        connection: the length has been told."""
        end = offset + count
        with self.lock:
            try:
                while offset < end:
                    piece_end = min(offset + CONTENT_MAX, end)
                    self.send(header(OUTPUT, piece_end - offset))
                    while offset < piece_end:
                        sent = os.sendfile(self.socket.fileno(), descriptor, offset, piece_end - offset)
                        if sent == 0:
                            raise Gone
                        offset += sent
            except OSError:
                raise Gone from None

    def end(self, output, end=END_WELL):
        """Sends the last frames of a response."""
        with self.lock:
            self.busy = False
            self.send(output + end)


def end_of(**fields):
    """The frame END with these fields (docs/backend-protocol.md)."""
    content = "".join("%s\0%s\0" % field for field in fields.items()).encode("utf-8", "surrogateescape")
    return header(END, len(content)) + content
