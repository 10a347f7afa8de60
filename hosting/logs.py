"""The log: one line per record, as JSON or text, on standard error. Without prompts, texts,
addresses, tokens or cookies.

Only a fixed set of fields of a record is written. In public mode records are cleaned where they are
created: no handler of any library receives the message of an exception or of a library, which may
quote what a visitor typed. Tracebacks that are printed (Gradio prints those of its handlers) become
records too, and in JSON every line that is printed. An exception is logged as file, line and
function: a source line, a local value or a message could quote a prompt, and SQLAlchemy's messages
contain the statement with stored values.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import uvicorn.config

LOG = logging.getLogger("mars")
UNCAUGHT = logging.getLogger("mars.uncaught")
PRINTED = logging.getLogger("printed")
# The extra values of a record that are written: short identifiers of this program.
TEXTS = ("fault", "where", "method", "route", "state")
NUMBERS = ("status", "ms", "seconds", "count", "bytes")
MAX_WORD = 80  # characters
ROOT = Path(__file__).parents[1]
MAX_CHAIN = 5  # exceptions
MAX_STACK = 30  # frames, the innermost
MAX_MESSAGE = 300  # characters
# The part of a file path before the root of the project or of the installed package, which depends
# on the machine.
_IN_PACKAGE = re.compile(rf"(?s)\A.*((site|dist)-packages|{re.escape(ROOT.as_posix())})/")
WITHHELD = "(a message of a library; it may quote a visitor and is not kept)"


def set_up(*, json: bool, public: bool, stream: TextIO | None = None) -> None:
    """Log to ``stream`` (default: standard error) from now on, in this process. Call it before
    the server is launched: uvicorn configures its logging at the start."""
    logging.raiseExceptions = (
        False  # Python would print the values of a record that cannot be written
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if json else TextLines())
    if json:
        replaced = {id(stream): _Printed(stream) for stream in (sys.stdout, sys.stderr)}
        sys.stdout, sys.stderr = replaced[id(sys.stdout)], replaced[id(sys.stderr)]
        handlers = (
            each
            for logger in logging.root.manager.loggerDict.values()
            for each in getattr(logger, "handlers", ())
        )
        for library in [each for each in handlers if isinstance(each, logging.StreamHandler)]:
            library.setStream(replaced.get(id(library.stream), library.stream))
    root, make = logging.getLogger(), logging.getLogRecordFactory()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(logging.INFO)
    logging.setLogRecordFactory(lambda *values, **named: _cleaned(make(*values, **named), public))
    uvicorn.config.LOGGING_CONFIG["loggers"] = {
        "uvicorn": {"handlers": [], "propagate": True},
        "uvicorn.access": {"handlers": [], "propagate": False},
    }
    _catch()


def _cleaned(record: logging.LogRecord, public: bool) -> logging.LogRecord:
    """Return the record with its exception as plain values; in public mode without texts that may
    quote a visitor."""
    record.trail = trail(record.exc_info[1] if record.exc_info else None, messages=not public)
    if public:
        record.exc_info = record.exc_text = record.stack_info = None
        if record.name.partition(".")[0] != LOG.name:
            record.msg, record.args = WITHHELD, None
    return record


class _Printed(io.TextIOBase):
    """Replaces a standard stream: each line that a library prints becomes a record."""

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
    """Return the written fields of a record, in order."""
    created = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
    written: dict[str, Any] = {
        "time": f"{created.isoformat(timespec='milliseconds')}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": readable(record.getMessage()),
    }
    extra = vars(record)
    written |= {
        name: readable(extra[name], MAX_WORD) for name in TEXTS if isinstance(extra.get(name), str)
    }
    written |= {name: extra[name] for name in NUMBERS if isinstance(extra.get(name), int | float)}
    if record.name.partition(".")[0] != LOG.name:
        written["at"] = f"{readable(record.module)}:{record.lineno}"
    return written


def trail(error: BaseException | None, *, messages: bool) -> list[dict[str, Any]]:
    """Return ``error`` and its causes, the latest first, each by ``type``, ``message`` unless that
    is withheld, and ``frames``, ``file:line function``, the innermost last. Does not raise."""
    links = list[dict[str, Any]]()
    while error is not None and len(links) < MAX_CHAIN:
        kind, message = type(error), _message(error) if messages else ""
        frames = [
            f"{_IN_PACKAGE.sub('', frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
            for frame, line in traceback.walk_tb(error.__traceback__)
        ]
        links.append(
            {"type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")}
            | ({"message": message} if message else {})
            | {"frames": [readable(each, MAX_MESSAGE) for each in frames[-MAX_STACK:]]}
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return links


def readable(text: str, most: int = 2000) -> str:
    """``text`` on one line without control characters, at most ``most`` characters."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text[:most]
    )


def _message(error: BaseException) -> str:
    """Return its first line; nothing where a message fails, which must not break the log."""
    with suppress(Exception):
        return readable(str(error).strip().partition("\n")[0], MAX_MESSAGE)
    return ""


class JsonLines(logging.Formatter):
    """One JSON object per record, in ASCII; ``error`` is the exception and its causes."""

    def format(self, record: logging.LogRecord) -> str:
        written = fields(record)
        links = getattr(record, "trail", ())
        return json.dumps(written | ({"error": links} if links else {}))


class TextLines(logging.Formatter):
    """Time, level, logger, message and ``name=value``; exceptions as types and frames on separate
    indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        written = fields(record)
        head = f"{written.pop('time')} {written.pop('level').upper()} {written.pop('logger')}: {written.pop('message')}"
        lines = [" ".join([head, *(f"{name}={value}" for name, value in written.items())])]
        for link in getattr(record, "trail", ()):
            lines.append(
                f"    {': '.join(link[name] for name in ('type', 'message') if name in link)}"
            )
            lines += [f"        {frame}" for frame in link["frames"]]
        return "\n".join(lines)


def _catch() -> None:
    """Logs tracebacks that would be printed: of the main thread, other threads, destructors and
    ``print_exc``."""
    printed, of_main = traceback.print_exception, sys.excepthook

    def record(error: BaseException | None, where: str) -> None:
        if error is not None:
            UNCAUGHT.error("uncaught", exc_info=error, extra={"where": where})

    def print_exception(error: Any, /, *given: Any, file: Any = None, **how: Any) -> None:
        """``given``: with an exception's class as ``error``, the exception itself first."""
        if file is not None:
            printed(error, *given, file=file, **how)
        else:
            record(given[0] if given else error, "printed")

    def excepthook(kind: type[BaseException], error: BaseException, tb: Any) -> None:
        if isinstance(error, Exception):
            record(error, "main")
        else:
            of_main(kind, error, tb)

    traceback.print_exception = print_exception
    sys.excepthook = excepthook
    threading.excepthook = lambda what: record(
        None if what.exc_type is SystemExit else what.exc_value, "thread"
    )
    sys.unraisablehook = lambda what: record(what.exc_value, "destructor")
