"""Loads the script of an application: a file of Python that need not have a name that can be imported."""

import gc
import hashlib
import os
import sys
import threading
import traceback
import types

lock = threading.RLock()
loaded = {}
# When the files of modules were changed that are loaded again.
times = {}


class NotLoaded(Exception):
    """There is no application: the status of the response, and what the log should say."""

    def __init__(self, status, text):
        Exception.__init__(self, text)
        self.status = status


def application(file, name):
    """The object of that name in a script, which is run if it has not been yet."""
    found = getattr(module(file), name, None)
    if found is None:
        raise NotLoaded(404, "Target WSGI script '%s' does not contain WSGI application '%s'." % (file, name))
    return found


def module(file):
    """The module that a script makes; the script is run if it has not been yet."""
    with lock:
        if file not in loaded:
            loaded[file] = load(file)
            # What the script has made stays: collections of garbage need not look at it again and again.
            gc.freeze()
        return loaded[file]


def current(file):
    """The module of a script as it is now: it is run again if it has changed."""
    with lock:
        changed = os.stat(file).st_mtime_ns if os.path.exists(file) else None
        if file not in loaded or times.get(file) != changed:
            loaded[file] = load(file)
            times[file] = changed
        return loaded[file]


def load(file):
    """Runs a script as a module."""
    module = types.ModuleType("_mod_wsgi_" + hashlib.md5(file.encode("utf-8", "surrogateescape")).hexdigest())
    module.__file__ = file
    sys.modules[module.__name__] = module
    try:
        with open(file, "rb") as script:
            code = compile(script.read(), file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except BaseException as problem:
        del sys.modules[module.__name__]
        where = "Failed to exec Python script file '%s'.\n" % file
        if isinstance(problem, SystemExit):
            where += "SystemExit exception raised by the script was ignored.\n"
        raise NotLoaded(500, where + formatted(problem)) from None
    return module


def is_from_here(problem):
    """Whether an exception comes from this program, and not from the application."""
    trace = problem.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return is_here(trace)


def is_here(trace):
    return trace.tb_frame.f_code.co_filename.startswith("tsubame_")


def formatted(problem):
    """A traceback without the lines of this program."""
    trace = problem.__traceback__
    while trace and is_here(trace):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(problem), problem, trace))
