"""An event loop that serves many requests at once: its connections, and how the process ends."""

import asyncio
import concurrent.futures
import signal
import sys
import threading

import tsubame_asgi as asgi
import tsubame_log as log
import tsubame_script as script
from tsubame_frames import CONTENT_MAX, ENVIRONMENT, HANDLER, INPUT, parse_header, texts

# How many connections wait to be accepted.
BACKLOG = 1024
# How long requests may go on once the process has the order to end, in seconds: less than the server then gives the process.
LAST_WORDS = 2


class Connection(asyncio.Protocol):
    """A connection to the server, and the request that it carries at the moment."""

    def __init__(self, loop):
        self.loop = loop
        self.transport = None
        self.buffer = bytearray()
        self.handler = None
        self.exchange = None
        # Whether the transport has been asked to read no more.
        self.paused = False
        # What waits for the transport to take more.
        self.drained = None

    def connection_made(self, transport):
        self.transport = transport
        self.loop.connections.add(self)

    def connection_lost(self, _):
        self.resume_writing()
        if self.exchange is not None:
            self.exchange.lost()
        self.loop.connections.discard(self)
        self.loop.look()

    def data_received(self, data):
        self.buffer += data
        buffer, at = self.buffer, 0
        while len(buffer) - at >= 8:
            kind, length = parse_header(buffer, at)
            if length > CONTENT_MAX:
                self.transport.abort()
                return
            if len(buffer) - at - 8 < length:
                break
            content = bytes(buffer[at + 8:at + 8 + length])
            at += 8 + length
            self.frame(kind, content)
        del buffer[:at]
        if self.is_full() and not self.paused:
            self.paused = True
            self.transport.pause_reading()

    def frame(self, kind, content):
        if kind == INPUT:
            if self.exchange is not None:
                self.exchange.arrived(content)
        elif kind == HANDLER:
            fields = texts(content)
            self.handler = dict(zip(fields[::2], fields[1::2]))
        elif kind == ENVIRONMENT and self.handler is not None:
            fields = texts(content)
            of_kind = asgi.WebSocket if self.handler["handler"] == "websocket" else asgi.Http
            self.exchange = of_kind(self, self.handler, dict(zip(fields[::2], fields[1::2])))
            self.loop.start(self.exchange.run())

    def is_full(self):
        """Whether enough waits for the application, or for a client that does not read: answers to its pings, for example."""
        return self.drained is not None or self.exchange is not None and self.exchange.is_full()

    def go_on(self):
        """Reads again if there is room now."""
        if self.paused and not self.is_full():
            self.paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def write(self, exchange, frames):
        """Sends frames of an exchange, from any thread."""
        if threading.get_ident() == self.loop.thread:
            self.transport.write(frames)
        elif not self.loop.events.is_closed():
            self.loop.events.call_soon_threadsafe(self.write_late, exchange, frames)

    def write_late(self, exchange, frames):
        if not exchange.over:
            self.transport.write(frames)

    def finish(self, frames):
        """Sends the last frames of an exchange. What is left of its body is skipped."""
        self.transport.write(frames)
        self.go_on()
        if self.loop.ending.is_set():
            self.transport.close()

    def order_to_end(self):
        """The process is going to end."""
        if self.exchange is None or self.exchange.over:
            self.transport.close()
        else:
            self.exchange.order_to_end()

    def pause_writing(self):
        self.drained = self.loop.events.create_future()

    def resume_writing(self):
        if self.drained is not None:
            self.drained.set_result(None)
            self.drained = None
            self.go_on()

    async def drain(self):
        """Waits until the transport takes more."""
        if self.drained is not None:
            await asyncio.shield(self.drained)


class Loop:
    """The event loop of the process."""

    def __init__(self, process):
        self.process = process
        self.events = None
        self.thread = threading.get_ident()
        self.connections = set()
        self.tasks = set()
        # The application of each script, or the task that lets it begin.
        self.applications = {}
        # The process is going to end, and can end.
        self.ending = None
        self.idle = None

    def start(self, work):
        task = self.events.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task):
        self.tasks.discard(task)
        self.look()

    def look(self):
        """Looks whether there is anything left to do before the end."""
        if self.ending.is_set() and not self.tasks and not self.connections:
            self.idle.set()

    async def application(self, handler):
        """The application of a handler, which has begun."""
        key = handler["file"], handler["callable"]
        found = self.applications.get(key)
        if found is None:
            found = self.applications[key] = self.events.create_task(self.begin(*key))
        return await asyncio.shield(found)

    async def begin(self, file, name):
        log.current.set(None)
        application = asgi.Application(script.application(file, name))
        await application.begin()
        return application

    def log(self, line):
        """Writes to the process's own standard error."""
        sys.stderr.outside.write(line.decode("utf-8"))

    async def serve(self):
        self.events = asyncio.get_running_loop()
        self.ending, self.idle = asyncio.Event(), asyncio.Event()
        self.events.add_signal_handler(signal.SIGTERM, self.ending.set)
        threads = concurrent.futures.ThreadPoolExecutor(self.process.threads, "worker")
        self.events.set_default_executor(threads)
        listener = await self.events.create_server(lambda: Connection(self), sock=self.process.listener, backlog=BACKLOG)
        await self.ending.wait()
        listener.close()
        for connection in list(self.connections):
            connection.order_to_end()
        self.look()
        try:
            await asyncio.wait_for(self.idle.wait(), LAST_WORDS)
        except asyncio.TimeoutError:
            for task in self.tasks:
                task.cancel()
        for application in self.applications.values():
            if not application.done() or application.exception() is None:
                try:
                    await (await application).end()
                except script.NotLoaded as problem:
                    print(problem, file=sys.stderr)
