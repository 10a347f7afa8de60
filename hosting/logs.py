"""The log: one line a record, as JSON or as text, on the standard error. Never prompts, texts, addresses, tokens or cookies.

What is written of a record is a fixed set of fields, so what a caller adds besides is not. In public mode records are cleaned where they
are made: no handler of any library gets to see the message of an exception, or of a library, both of which may quote what a visitor
typed. Tracebacks that are printed (Gradio prints those of its handlers) become records too, and in JSON every line that is printed.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

import uvicorn.config

from hosting.trail import Link, readable, trail

LOG = logging.getLogger("mars")
UNCAUGHT = logging.getLogger("mars.uncaught")
PRINTED = logging.getLogger("printed")
# Of a record's extra values, these are written: short words of this program.
TEXTS = ("fault", "where", "method", "route", "state")
NUMBERS = ("status", "ms", "seconds", "count", "bytes")
LONGEST_WORD = 80  # characters
KEPT_BACK = "(a message of a library; it may quote a visitor and is not kept)"
Undo = Callable[[], None]


def set_up(*, json: bool, public: bool, stream: TextIO | None = None) -> Undo:
    """Log to ``stream``, the standard error where None, from now on. The returned function brings back what was.

    To be called before the server is launched: uvicorn reads what it logs with when it starts.
    """
    printed = sys.stdout, sys.stderr
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if json else TextLines())
    if json:
        _replace_streams(_Printed(sys.stdout), _Printed(sys.stderr))
    root = logging.getLogger()
    before = (root.handlers[:], root.level, LOG.level, logging.getLogRecordFactory(), dict(_uvicorn()["loggers"]))
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(logging.INFO)
    logging.setLogRecordFactory(_Records(before[3], public))
    _uvicorn()["loggers"] = {
        "uvicorn": {"handlers": [], "propagate": True},
        "uvicorn.access": {"handlers": [], "propagate": False},
    }
    hooks = _catch()

    def undo() -> None:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        LOG.setLevel(before[2])
        logging.setLogRecordFactory(before[3])
        _uvicorn()["loggers"] = before[4]
        _replace_streams(*printed)
        hooks()

    return undo


def _uvicorn() -> dict[str, Any]:
    """What every server of uvicorn's in this process sets its logs up with."""
    return uvicorn.config.LOGGING_CONFIG


def _replace_streams(out: Any, err: Any) -> None:
    """Also where handlers of libraries hold the standard streams since they were imported."""
    replaced = {id(sys.stdout): out, id(sys.stderr): err}
    sys.stdout, sys.stderr = out, err
    for logger in list(logging.root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and id(handler.stream) in replaced:
                handler.setStream(replaced[id(handler.stream)])


class _Records:
    """Makes records; those of a public page without what may quote a visitor."""

    def __init__(self, make: Callable[..., logging.LogRecord], public: bool) -> None:
        self._make, self._public = make, public

    def __call__(self, *values: Any, **named: Any) -> logging.LogRecord:
        record = self._make(*values, **named)
        error = record.exc_info[1] if record.exc_info else None
        record.trail = trail(error, messages=not self._public)
        if self._public:
            record.exc_info = record.exc_text = record.stack_info = None
            if record.name != LOG.name and not record.name.startswith(f"{LOG.name}."):
                record.msg, record.args = KEPT_BACK, None
        return record


class _Handler(logging.StreamHandler[TextIO]):
    """Whatever cannot be written is not told either: Python would print the record's values."""

    def handleError(self, record: logging.LogRecord) -> None:
        del record


class _Printed(io.TextIOBase):
    """Takes the place of a standard stream: each line that a library prints becomes a record."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._rest, self._lock = stream, "", threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = f"{self._rest}{text}".replace("\r", "\n").split("\n")
            for line in lines:
                if line.strip():
                    PRINTED.warning("%s", line)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What is written of a record, in this order."""
    written: dict[str, Any] = {
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": readable(record.getMessage()),
    }
    extra = vars(record)
    written |= {name: readable(extra[name], LONGEST_WORD) for name in TEXTS if isinstance(extra.get(name), str)}
    written |= {name: extra[name] for name in NUMBERS if isinstance(extra.get(name), int | float)}
    if record.name.partition(".")[0] != LOG.name:
        written["at"] = f"{readable(record.module)}:{record.lineno}"
    return written


def _links(record: logging.LogRecord) -> tuple[Link, ...]:
    found: tuple[Link, ...] = getattr(record, "trail", ())
    return found


class JsonLines(logging.Formatter):
    """One JSON object a record, in ASCII; ``error`` is the exception and what it came of."""

    def format(self, record: logging.LogRecord) -> str:
        said = fields(record)
        if links := _links(record):
            said["error"] = [{name: value for name, value in link._asdict().items() if value} for link in links]
        return json.dumps(said)


class TextLines(logging.Formatter):
    """Time, level, logger, message and ``name=value``; of an exception its types and frames on lines of their own, indented."""

    def format(self, record: logging.LogRecord) -> str:
        said = fields(record)
        head = f"{said.pop('time')} {said.pop('level').upper()} {said.pop('logger')}: {said.pop('message')}"
        lines = [" ".join([head, *(f"{name}={value}" for name, value in said.items())])]
        for link in _links(record):
            lines.append(f"    {link.type}" + (f": {link.message}" if link.message else ""))
            lines += [f"        {frame}" for frame in link.frames]
        return "\n".join(lines)


def _catch() -> Undo:
    """What would be printed with a traceback becomes a record: of the main thread, of others, of destructors, of ``print_exc``."""
    printed, main, thread, destructor = (
        traceback.print_exception,
        sys.excepthook,
        threading.excepthook,
        sys.unraisablehook,
    )

    def print_exception(
        error: Any, /, value: Any = None, tb: Any = None, limit: Any = None, file: Any = None, chain: bool = True
    ) -> None:
        found = value if tb is not None or isinstance(value, BaseException) else error
        if file is not None:
            return printed(found, limit=limit, file=file, chain=chain)
        if isinstance(found, BaseException):
            _uncaught(found, "printed")

    def of_main(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if issubclass(kind, Exception):
            _uncaught(error, "main")
        else:
            main(kind, error, tb)

    def of_thread(what: threading.ExceptHookArgs, /) -> None:
        if what.exc_value is not None and not issubclass(what.exc_type, SystemExit):
            _uncaught(what.exc_value, "thread")

    def of_destructor(what: sys.UnraisableHookArgs, /) -> None:
        if what.exc_value is not None:
            _uncaught(what.exc_value, "destructor")

    def undo() -> None:
        traceback.print_exception = printed
        sys.excepthook, threading.excepthook, sys.unraisablehook = main, thread, destructor

    traceback.print_exception = print_exception
    sys.excepthook, threading.excepthook, sys.unraisablehook = of_main, of_thread, of_destructor
    return undo


def _uncaught(error: BaseException, where: str) -> None:
    UNCAUGHT.error("uncaught", exc_info=error, extra={"where": where})
