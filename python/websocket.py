"""The frames of WebSockets (RFC 6455), from the side of the server."""

import base64
import binascii
import codecs
import hashlib
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

# The longest message of a client, in bytes.
MESSAGE_MAX = 16 << 20
# The longest content of a frame that is no part of a message.
CONTROL_MAX = 125

# Why a connection ends (RFC 6455 section 7.4.1).
NORMAL, PROTOCOL_ERROR, NO_STATUS, ABNORMAL, INVALID, TOO_LONG, INTERNAL_ERROR, RESTART = (
    1000, 1002, 1005, 1006, 1007, 1009, 1011, 1012)

KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Violation(Exception):
    """The client breaks the protocol: the code to end the connection with."""

    def __init__(self, code):
        Exception.__init__(self, code)
        self.code = code


def accept_of(key):
    """The proof that the key of a handshake was read. None: it is no key."""
    try:
        if len(base64.b64decode(key, validate=True)) != 16:
            return None
    except binascii.Error:
        return None
    return base64.b64encode(hashlib.sha1(key + KEY_SUFFIX).digest())


def frame(kind, content):
    """A frame with a whole message, or with what is no part of one."""
    length = len(content)
    if length < 126:
        head = struct.pack(">BB", 0x80 | kind, length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 126, length)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 127, length)
    return head + content


def close_frame(code, reason):
    """The frame that ends a connection. The reason has room for 123 bytes."""
    if code == NO_STATUS:
        return frame(CLOSE, b"")
    text = reason.encode("utf-8")[:CONTROL_MAX - 2].decode("utf-8", "ignore")
    return frame(CLOSE, struct.pack(">H", code) + text.encode("utf-8"))


def unmasked(content, mask):
    """The content of a client's frame (RFC 6455 section 5.3)."""
    length = len(content)
    key = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(content, "little") ^ int.from_bytes(key, "little")).to_bytes(length, "little")


def may_be_sent(code):
    """Whether a code may be in a frame (RFC 6455 section 7.4)."""
    return 1000 <= code <= 1014 and code not in (1004, NO_STATUS, ABNORMAL) or 3000 <= code <= 4999


def closed_by(content):
    """The code and the reason in the client's last frame."""
    if not content:
        return NO_STATUS, ""
    if len(content) == 1 or not may_be_sent(int.from_bytes(content[:2], "big")):
        raise Violation(PROTOCOL_ERROR)
    return int.from_bytes(content[:2], "big"), text_of(content[2:])


def text_of(content):
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Violation(INVALID) from None


class Reader:
    """Puts the messages of a client together."""

    def __init__(self):
        # What has arrived and was not used yet.
        self.buffer = bytearray()
        # The message that has begun: its type and its pieces.
        self.kind = None
        self.whole = bytearray()
        self.decoder = None

    def messages(self, data):
        """What is whole now that this has arrived: types and contents, of which that of TEXT is a text."""
        self.buffer += data
        found = self.next_frame()
        while found is not None:
            kind, last, content = found
            if kind >= CLOSE:
                yield kind, content
            else:
                yield from self.piece(kind, last, content)
            found = self.next_frame()

    def next_frame(self):
        """The type of the next frame, whether it ends a message, and its content. None: it is not all here."""
        buffer = self.buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        kind, last, length = first & 0x0F, bool(first & 0x80), second & 0x7F
        # Nobody has agreed on an extension, and clients hide what they send.
        if first & 0x70 or not second & 0x80 or not (kind <= BINARY or CLOSE <= kind <= PONG):
            raise Violation(PROTOCOL_ERROR)
        if kind >= CLOSE and (not last or length > CONTROL_MAX):
            raise Violation(PROTOCOL_ERROR)
        at = {126: 4, 127: 10}.get(length, 2)
        if len(buffer) < at:
            return None
        if at > 2:
            length = int.from_bytes(buffer[2:at], "big")
        if kind < CLOSE and len(self.whole) + length > MESSAGE_MAX:
            raise Violation(TOO_LONG)
        if len(buffer) < at + 4 + length:
            return None
        content = unmasked(bytes(buffer[at + 4:at + 4 + length]), bytes(buffer[at:at + 4]))
        del buffer[:at + 4 + length]
        return kind, last, content

    def piece(self, kind, last, content):
        """Adds a piece to the message. Returns the message if this is its end."""
        if (kind == CONTINUATION) != (self.kind is not None):
            raise Violation(PROTOCOL_ERROR)
        if kind != CONTINUATION:
            self.kind = kind
            if last:
                self.kind = None
                return [(kind, text_of(content) if kind == TEXT else content)]
            self.decoder = codecs.getincrementaldecoder("utf-8")() if kind == TEXT else None
        self.whole += content
        if self.decoder is not None:
            # At once: a client with a broken text need not be heard to its end.
            try:
                self.decoder.decode(content, last)
            except UnicodeDecodeError:
                raise Violation(INVALID) from None
        if not last:
            return []
        kind, whole = self.kind, bytes(self.whole)
        self.kind, self.whole = None, bytearray()
        return [(kind, text_of(whole) if kind == TEXT else whole)]
