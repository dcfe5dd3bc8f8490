"""The process: its arguments, its threads, and how it ends."""

import gc
import os
import select
import signal
import site
import socket
import sys
import threading
import time

import tsubame_log as log
import tsubame_script as script
from tsubame_frames import Connection, Gone
from tsubame_wsgi import Application


# How long a copy lives whose client has gone, in seconds.
ORPHAN_LIVES = 3
# The scripts to load before there is a request.
IMPORT = "import="


class Process:
    """What the process was started with."""

    def __init__(self, mode, arguments):
        options = dict(argument.split("=", 1) for argument in arguments)
        self.threads = int(options.get("threads", "1"))
        self.imports = [argument[len(IMPORT):] for argument in arguments if argument.startswith(IMPORT)]
        self.listener = socket.socket(fileno=os.dup(0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = log.Log("<stdout>", 2)
        sys.stderr = log.Log("<stderr>", 2)
        sys.stdin = open(os.devnull)
        # Some applications look for options there.
        sys.argv = ["mod_wsgi"]
        add_paths(options.get("python-path"))
        if options.get("umask"):
            os.umask(int(options["umask"], 8))
        if options.get("display-name"):
            show_name(options["display-name"])
        if options.get("stack-size"):
            threading.stack_size(int(options["stack-size"]))
        # Whether requests share this process at the same time.
        self.shared = mode == "wsgi" and self.threads > 1
        self.ending = False
        self.serving = False

    def order_to_end(self, *_):
        """Ends the process now if it is idle, and otherwise after its request."""
        self.ending = True
        if not self.serving:
            raise SystemExit

    def serve_alone(self):
        """Serves one request at a time."""
        signal.signal(signal.SIGTERM, self.order_to_end)
        while True:
            connection, _ = self.listener.accept()
            self.serve(connection)

    def serve(self, socket):
        """Serves the requests of a connection until the server closes it."""
        connection = Connection(socket)
        application = Application(connection, self)
        log.current.set(connection)
        try:
            while True:
                request = connection.request()
                if request is None:
                    return
                self.serving = True
                application.serve(*request)
                self.serving = False
                if self.ending:
                    raise SystemExit
        except (Gone, OSError):
            pass
        finally:
            self.serving = False
            log.current.set(None)
            socket.close()
            if self.ending and not self.shared:
                raise SystemExit

    def serve_in_threads(self):
        """Serves as many requests at a time as there are threads."""
        ordered, order = os.pipe()
        os.set_blocking(order, False)
        signal.set_wakeup_fd(order)
        signal.signal(signal.SIGTERM, lambda *_: None)
        workers = [threading.Thread(target=self.work, name="worker %d" % n) for n in range(self.threads)]
        for worker in workers:
            worker.start()
        # Other signals, which an application may have handlers for, write their own numbers.
        while signal.SIGTERM not in os.read(ordered, 64):
            pass
        self.ending = True
        # Nobody waits for another connection any more.
        self.listener.shutdown(socket.SHUT_RDWR)
        for worker in workers:
            worker.join()

    def work(self):
        """A thread's life."""
        while not self.ending:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                self.serve(connection)
            except SystemExit:
                return

    def serve_in_copies(self):
        """Serves each connection in a copy of this process, in which the application is loaded already; `threads` at a time."""
        signal.signal(signal.SIGTERM, self.order_to_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A signal ends a wait.
        signals, signal_written = os.pipe()
        for end in (signals, signal_written):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(signal_written, warn_on_full_buffer=False)
        # The order to end is followed between two waits.
        self.serving = True
        # What the copies share must not be touched by a collection of garbage.
        gc.freeze()
        # The copies: the connection of each, and when it is killed, because nobody waits for its response.
        copies = {}
        try:
            while not self.ending:
                if self.wait(copies, signals):
                    connection, _ = self.listener.accept()
                    process = os.fork()
                    if process == 0:
                        copies.clear()
                        self.serving = False
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        self.listener.close()
                        self.serve(connection)
                        sys.exit(0)
                    copies[process] = [connection, None]
        finally:
            for process in copies:
                os.kill(process, signal.SIGKILL)

    def wait(self, copies, signals):
        """Waits until something happens, looks after the copies, and returns whether there is a connection for another one."""
        waiting = select.poll()
        waiting.register(signals, select.POLLIN)
        if len(copies) < self.threads:
            waiting.register(self.listener, select.POLLIN)
        ends = {}
        for copy in copies.values():
            if copy[1] is None:
                ends[copy[0].fileno()] = copy
                waiting.register(copy[0], select.POLLRDHUP)
        deadlines = [copy[1] for copy in copies.values() if copy[1] is not None]
        patience = max(0, min(deadlines) - time.monotonic()) * 1000 if deadlines else None
        ready = [descriptor for descriptor, _ in waiting.poll(patience)]
        now = time.monotonic()
        for descriptor in ready:
            if descriptor == signals:
                os.read(signals, 1024)
            elif descriptor in ends:
                ends[descriptor][1] = now + ORPHAN_LIVES
        for process, (connection, deadline) in list(copies.items()):
            # Other children are the application's own business.
            if has_ended(process):
                del copies[process]
                connection.close()
            elif deadline is not None and deadline <= now:
                os.kill(process, signal.SIGKILL)
        return self.listener.fileno() in ready

    def serve_in_a_loop(self):
        """Serves many requests at a time, as long as they wait for something."""
        # Others need no event loop, whose libraries take time to load.
        import asyncio
        from tsubame_loop import Loop

        asyncio.run(Loop(self).serve())


def has_ended(process):
    """Whether a child has ended, which is then forgotten."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        # Code of the application has waited for any child.
        return True


def add_paths(paths):
    """Adds directories before those that are searched already, with the `.pth` files in them."""
    if not paths:
        return
    before = list(sys.path)
    for path in paths.split(":"):
        site.addsitedir(path)
    sys.path[:] = [path for path in sys.path if path not in before] + before


def show_name(name):
    """Shows a name of up to 15 bytes in lists of processes."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(name)
    except OSError:
        pass


def main(mode, arguments):
    # The directory of this program is none.
    del sys.path[0]
    process = Process(mode, arguments)
    for file in process.imports:
        try:
            script.module(file)
        except script.NotLoaded as problem:
            # The requests will say so, too, to those who ask.
            print(problem, file=sys.stderr)
    if mode == "fork":
        process.serve_in_copies()
    elif mode == "asgi":
        process.serve_in_a_loop()
    elif process.threads == 1:
        process.serve_alone()
    else:
        process.serve_in_threads()
