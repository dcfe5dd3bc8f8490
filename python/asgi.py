"""Applications with the interface of ASGI 3: what they are told, and what they answer.

https://asgi.readthedocs.io/en/latest/specs/
"""

import asyncio
import collections
import os
import struct
import urllib.parse

import tsubame_log as log
import tsubame_script as script
import tsubame_websocket as websocket
from tsubame_frames import CONTENT_MAX, END_WELL, ERROR, OUTPUT, end_of, header

VERSIONS = {"version": "3.0", "spec_version": "2.3"}
# How much of a body, and of a client's messages, waits for the application before the server is asked to wait.
UNREAD_MAX = 1 << 16
# How often a WebSocket is tried while its client is silent, and how long the client has to answer, in seconds.
PING_AFTER = 20
# How long a client has to agree to the end of a WebSocket, in seconds.
CLOSE_WITHIN = 10
# Responses with these statuses have no body whose length could be told (RFC 9110 section 6.4.1).
WITHOUT_BODY = (204, 304)


def frames(kind, data):
    """Data of any length as frames of a type."""
    if len(data) <= CONTENT_MAX:
        return header(kind, len(data)) + data
    pieces = (data[start:start + CONTENT_MAX] for start in range(0, len(data), CONTENT_MAX))
    return b"".join([header(kind, len(piece)) + piece for piece in pieces])


class FieldNames(dict):
    """The names of header fields, by the names of their variables."""

    def __missing__(self, variable):
        if len(self) >= 1000:
            self.clear()
        name = variable[len("HTTP_"):] if variable.startswith("HTTP_") else variable
        self[variable] = made = name.replace("_", "-").lower().encode("latin-1")
        return made


field_names = FieldNames()


def scope_of(environ, kind):
    """What an application is told about a request."""
    get = environ.get
    secure = get("REQUEST_SCHEME") == "https"
    address = get("REQUEST_URI", "").partition("?")[0]
    path = get("SCRIPT_NAME", "") + get("PATH_INFO", "")
    scope = {
        "type": kind,
        "asgi": VERSIONS,
        "http_version": get("SERVER_PROTOCOL", "HTTP/1.1")[len("HTTP/"):].replace("2.0", "2"),
        "scheme": "https" if secure else "http",
        "path": path.encode("latin-1").decode("utf-8", "replace"),
        "raw_path": address.encode("latin-1") if address.startswith("/") else None,
        "query_string": get("QUERY_STRING", "").encode("latin-1"),
        "root_path": get("SCRIPT_NAME", "").encode("latin-1").decode("utf-8", "replace"),
        # Only fields whose names have letters, digits and hyphens become variables, so no two names become one.
        "headers": [(field_names[name], value.encode("latin-1")) for name, value in environ.items()
                    if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value],
        "client": (get("REMOTE_ADDR", ""), int(get("REMOTE_PORT") or 0)),
        "server": (get("SERVER_ADDR", ""), int(get("SERVER_PORT") or 0)),
        "extensions": {"tsubame.environ": environ},
    }
    if kind == "http":
        scope["method"] = get("REQUEST_METHOD", "GET")
    else:
        scope["scheme"] = "wss" if secure else "ws"
        scope["subprotocols"] = [name.strip() for name in get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",") if name.strip()]
        scope["extensions"]["websocket.http.response"] = {}
    return scope


class Exchange:
    """A request, and the response of an application. The methods of a subclass are for the application."""

    def __init__(self, connection, handler, environ):
        self.connection = connection
        self.handler = handler
        self.environ = environ
        # Whether the response is complete: nothing more may be sent.
        self.over = False
        # Whether nobody waits for the response any more.
        self.gone = False
        # Whether the head of the response has been sent, and what it will be.
        self.started = False
        self.head = None
        # What the application's tasks wait for: that something happens.
        self.waiters = []

    # From the connection.

    def lost(self):
        """The connection has ended."""
        self.gone = self.over = True
        self.wake()

    def order_to_end(self):
        """The process is going to end after this exchange."""

    def wake(self):
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def event(self):
        """Waits until something has happened."""
        waiter = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        try:
            await waiter
        finally:
            self.waiters.remove(waiter)

    # To the connection.

    def write(self, kind, data):
        """Sends data, from any thread. Returns whether the request can still have any."""
        if self.over:
            return False
        self.connection.write(self, frames(kind, data))
        return True

    def end(self, output=b"", end=END_WELL):
        """Sends the last frames of the response."""
        if not self.over:
            self.over = True
            self.connection.finish(output + end)
            self.wake()

    def report(self, text):
        """Writes to the error log, where the details of the request are added if it has not ended."""
        line = log.message(text)
        if not self.write(ERROR, line):
            self.connection.loop.log(line)

    # The life of the exchange.

    async def run(self):
        log.current.set(self)
        try:
            application = await self.connection.loop.application(self.handler)
            scope = scope_of(self.environ, self.kind)
            if application.state is not None:
                scope["state"] = application.state.copy()
            await application.call(scope, self.receive, self.send)
        except script.NotLoaded as problem:
            self.report(str(problem))
            # Another process may have more luck: its database may be there by then.
            self.fail(500 if self.handler["process_group"] else problem.status, last=1)
        except (Exception, SystemExit, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and self.connection.loop.ending.is_set():
                # The process ends, and not a task of the application.
                raise
            if not (self.gone and isinstance(problem, OSError)):
                self.report("Exception occurred processing ASGI script '%s'.\n%s"
                            % (self.handler["file"], script.formatted(problem)))
            self.fail(500)
        else:
            self.returned()

    def fail(self, status, **fields):
        """Ends a response that will not be complete. `fields`: more of the last frame."""
        if self.started:
            self.end(end=end_of(status=1, error="the application failed in the middle of its response"))
        else:
            # Together: an end that came later would leave an empty page.
            head = b"Status: %d\r\n\r\n" % status
            self.end(header(OUTPUT, len(head)) + head, end_of(status=0, http=status, **fields))

    def start(self, message):
        """Takes the head of a response."""
        if self.head is not None:
            raise RuntimeError("the response has begun already")
        status = int(message["status"])
        if not 200 <= status <= 599:
            raise ValueError("%d is not the status of a final response" % status)
        lines = [b"Status: %d\r\n" % status]
        told = status in WITHOUT_BODY
        for name, value in message.get("headers") or ():
            lines.append(b"%s: %s\r\n" % (name, value))
            told = told or name.lower() == b"content-length"
        self.head = joined(lines), told

    async def body(self, message):
        """Sends a piece of the body, after the head."""
        if self.head is None:
            raise RuntimeError("a body before http.response.start")
        data = message.get("body") or b""
        more = message.get("more_body", False)
        if not self.started:
            head, told = self.head
            if not more and not told and (data or self.environ.get("REQUEST_METHOD") != "HEAD"):
                head += b"Content-Length: %d\r\n" % len(data)
            data = head + b"\r\n" + data
            self.started = True
        if more:
            if data:
                self.write(OUTPUT, data)
            await self.connection.drain()
        else:
            self.end(frames(OUTPUT, data) if data else b"")


def joined(lines):
    """The lines of a head, none of which has a line break of its own."""
    text = b"".join(lines)
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\0" in text:
        raise ValueError("a header field contains a line break: %r" % (lines,))
    return text


class Http(Exchange):
    """An HTTP request."""

    kind = "http"

    def __init__(self, connection, handler, environ):
        Exchange.__init__(self, connection, handler, environ)
        self.pieces = []
        self.unread = 0
        # Whether the client has sent the whole body, and the application has heard that.
        self.complete = False
        self.told = False

    def arrived(self, data):
        """A piece of the body; an empty one is its end."""
        if self.over:
            return
        if data:
            self.pieces.append(data)
            self.unread += len(data)
        else:
            self.complete = True
        self.wake()

    def is_full(self):
        return self.unread >= UNREAD_MAX and not self.over

    async def receive(self):
        while not self.over and not self.pieces and (self.told or not self.complete):
            await self.event()
        if self.over:
            return {"type": "http.disconnect"}
        data = b"".join(self.pieces)
        self.pieces, self.unread = [], 0
        self.told = self.complete
        self.connection.go_on()
        return {"type": "http.request", "body": data, "more_body": not self.complete}

    async def send(self, message):
        kind = message["type"]
        if self.gone:
            return
        if self.over:
            raise RuntimeError("%s after the end of the response" % kind)
        if kind == "http.response.start":
            self.start(message)
        elif kind == "http.response.body":
            await self.body(message)
        else:
            raise ValueError("%s is no message of a response" % kind)

    def returned(self):
        if not self.over:
            self.report("ASGI script '%s' returned without a complete response." % self.handler["file"])
            self.fail(500)


class WebSocket(Exchange):
    """A client that asks for a WebSocket."""

    kind = "websocket"

    def __init__(self, connection, handler, environ):
        Exchange.__init__(self, connection, handler, environ)
        self.reader = websocket.Reader()
        self.events = collections.deque([{"type": "websocket.connect"}])
        self.unread = 0
        self.accepted = False
        # Whether our last frame has been sent, and the client's has come.
        self.closed = False
        self.heard = False
        self.timer = None
        self.silent = False

    # From the client.

    def arrived(self, data):
        if self.over or not self.accepted:
            return
        if not data:
            self.disconnected(websocket.ABNORMAL)
            return
        self.silent = False
        try:
            for kind, content in self.reader.messages(data):
                self.message(kind, content)
                if self.heard:
                    return
        except websocket.Violation as violation:
            self.disconnected(violation.code, frame=websocket.close_frame(violation.code, ""))

    def message(self, kind, content):
        if kind == websocket.CLOSE:
            code, reason = websocket.closed_by(content)
            self.disconnected(code, reason, websocket.close_frame(code, ""))
        elif self.closed or kind == websocket.PONG:
            pass
        elif kind == websocket.PING:
            self.write(OUTPUT, websocket.frame(websocket.PONG, content))
        else:
            self.unread += len(content) + 1
            name = "text" if kind == websocket.TEXT else "bytes"
            self.events.append({"type": "websocket.receive", name: content})
            self.wake()

    def is_full(self):
        return self.unread >= UNREAD_MAX and not self.over

    def disconnected(self, code, reason="", frame=b""):
        """The client will say no more. `frame`: our answer to that."""
        self.heard = True
        self.events.append({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.stop()
        self.end(frames(OUTPUT, frame) if frame and not self.closed else b"")
        self.wake()

    def lost(self):
        if not self.heard:
            self.heard = True
            self.events.append({"type": "websocket.disconnect", "code": websocket.ABNORMAL})
        self.stop()
        Exchange.lost(self)

    def order_to_end(self):
        """The process is going to end: the client should ask again."""
        if self.accepted and not self.closed:
            self.close(websocket.RESTART, "")
            self.events.append({"type": "websocket.disconnect", "code": websocket.RESTART})
            self.wake()

    def watch(self):
        """Tries whether the client is still there."""
        if self.silent:
            self.disconnected(websocket.ABNORMAL)
            return
        self.silent = True
        self.write(OUTPUT, websocket.frame(websocket.PING, struct.pack(">I", os.getpid())))
        self.timer = asyncio.get_running_loop().call_later(PING_AFTER, self.watch)

    def stop(self):
        if self.timer is not None:
            self.timer.cancel()

    # For the application.

    async def receive(self):
        while not self.events:
            if self.over:
                return {"type": "websocket.disconnect", "code": websocket.ABNORMAL}
            await self.event()
        event = self.events.popleft()
        if event["type"] == "websocket.receive":
            self.unread -= len(event.get("bytes") or event.get("text") or b"") + 1
            self.connection.go_on()
        return event

    async def send(self, message):
        kind = message["type"]
        if self.gone or self.heard:
            return
        if self.over or self.closed:
            raise RuntimeError("%s after the end of the connection" % kind)
        if kind == "websocket.accept" and not self.accepted and self.head is None:
            self.accept(message)
        elif kind == "websocket.send" and self.accepted:
            self.write(OUTPUT, sent(message))
            await self.connection.drain()
        elif kind == "websocket.close" and self.accepted:
            self.close(message.get("code") or websocket.NORMAL, message.get("reason") or "")
        elif kind == "websocket.close" and self.head is None:
            self.fail(403)
        elif kind == "websocket.http.response.start" and not self.accepted:
            self.start(message)
        elif kind == "websocket.http.response.body" and not self.accepted:
            await self.body(message)
        else:
            raise RuntimeError("%s is no message for now" % kind)

    def accept(self, message):
        """Agrees to the client's wish, if the handshake is one (RFC 6455 section 4.2)."""
        lines = [b"Status: 101\r\n"]
        # A stream of HTTP/2 has neither (RFC 8441 section 5).
        if self.environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
            proof = websocket.accept_of(self.environ.get("HTTP_SEC_WEBSOCKET_KEY", "").encode("latin-1"))
            lines.append(b"Sec-WebSocket-Accept: %s\r\n" % (proof or b""))
        if message.get("subprotocol"):
            lines.append(b"Sec-WebSocket-Protocol: %s\r\n" % message["subprotocol"].encode("latin-1"))
        lines.extend(b"%s: %s\r\n" % (name, value) for name, value in message.get("headers") or ())
        head = joined(lines) + b"\r\n"
        self.accepted = self.started = True
        self.write(OUTPUT, head)
        self.timer = asyncio.get_running_loop().call_later(PING_AFTER, self.watch)

    def close(self, code, reason):
        """Says that this is the end, and waits for the client to agree."""
        self.closed = True
        self.write(OUTPUT, websocket.close_frame(code, reason))
        self.stop()
        self.timer = asyncio.get_running_loop().call_later(CLOSE_WITHIN, self.end)

    def fail(self, status, **fields):
        if self.accepted and not self.over:
            if not self.closed:
                self.close(websocket.INTERNAL_ERROR, "")
        else:
            Exchange.fail(self, status, **fields)

    def returned(self):
        if self.over or self.closed:
            return
        if self.accepted:
            self.close(websocket.NORMAL, "")
        else:
            self.report("ASGI script '%s' returned without an answer to the handshake." % self.handler["file"])
            self.fail(500)

    def refusal(self):
        """The response to a handshake that is none: a status and fields. None: it is one."""
        if self.environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13":
            return b"Status: 426\r\nSec-WebSocket-Version: 13\r\nContent-Type: text/plain\r\n\r\nWebSocket version 13 is needed.\n"
        key = self.environ.get("HTTP_SEC_WEBSOCKET_KEY", "").encode("latin-1")
        if self.environ.get("SERVER_PROTOCOL") == "HTTP/1.1" and websocket.accept_of(key) is None:
            return b"Status: 400\r\nContent-Type: text/plain\r\n\r\nSec-WebSocket-Key is no key.\n"
        return None

    async def run(self):
        refusal = self.refusal()
        if refusal is not None:
            self.end(frames(OUTPUT, refusal))
            return
        await Exchange.run(self)
        while not self.over:
            await self.event()


def sent(message):
    """The frame of a message for the client."""
    data = message.get("bytes")
    if data is not None:
        return websocket.frame(websocket.BINARY, bytes(data))
    return websocket.frame(websocket.TEXT, message["text"].encode("utf-8"))


class Application:
    """An application, and its own beginning and end."""

    def __init__(self, call):
        self.call = call
        # What it has put there for its requests, if it has a beginning.
        self.state = None
        self.orders = asyncio.Queue()
        self.answers = asyncio.Queue()
        self.task = None

    async def begin(self):
        """Lets it begin. `NotLoaded`: it cannot."""
        state = {}
        self.task = asyncio.get_running_loop().create_task(self.live(state))
        answer = await self.ask("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise script.NotLoaded(500, "The start of the ASGI application has failed. %s" % answer.get("message", ""))
        if answer is None:
            # As the specification wants: it has no beginning.
            self.task = None
        else:
            self.state = state

    async def end(self):
        if self.task is not None:
            answer = await self.ask("lifespan.shutdown")
            if answer is not None and answer["type"] == "lifespan.shutdown.failed":
                raise script.NotLoaded(500, "The end of the ASGI application has failed. %s" % answer.get("message", ""))

    async def ask(self, kind):
        """Tells it something, and returns the answer. None: it does not listen, or has ended without one."""
        await self.orders.put({"type": kind})
        answers = asyncio.get_running_loop().create_task(self.answers.get())
        await asyncio.wait([answers, self.task], return_when=asyncio.FIRST_COMPLETED)
        if answers.done():
            return answers.result()
        answers.cancel()
        return None if self.answers.empty() else self.answers.get_nowait()

    async def live(self, state):
        scope = {"type": "lifespan", "asgi": VERSIONS, "state": state}
        try:
            await self.call(scope, self.orders.get, self.answers.put)
        except (Exception, SystemExit):
            # An application that knows no lifespan says so by an exception. Others have reported their failure.
            pass
