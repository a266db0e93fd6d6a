"""The log of the server: a line of JSON for each event, without texts, paths of requests or keys."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TextIO

_ENCODE = json.JSONEncoder(ensure_ascii=True, default=str).encode
_WRITTEN = ("locant", "uvicorn")  # loggers whose messages hold nothing of what is sent
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class RequestRecord(logging.LogRecord):
    """A record of a request, made in a fraction of the time that logging takes for one.

    Args:
        entry: Numbers and words by name, each of them an attribute as well.
    """

    entry: Mapping[str, int | float | str]

    def __init__(self, entry: Mapping[str, int | float | str]) -> None:
        now = time.time()
        self.__dict__.update(_like_others(os.getpid()))
        self.__dict__.update(entry, entry=entry, created=now, msecs=now % 1 * 1000)


@lru_cache(maxsize=1)
def _like_others(process: int) -> dict[str, Any]:
    """Return what all records of requests of a process have in common."""
    return vars(logging.LogRecord("locant.server", logging.INFO, "", 0, "request", (), None)) | {"process": process}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and whatever was given besides.

    Of what other packages log, their name alone is written: their messages may hold a part of a text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        if isinstance(record, RequestRecord):
            fields = [
                f'"{name}": {_word(value) if isinstance(value, str) else value}' for name, value in record.entry.items()
            ]
            return (
                f'{{"time": "{_time_of(record)}", "level": "info", "event": "request", "process": {record.process}, '
                f"{', '.join(fields)}}}"
            )
        entry: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith(_WRITTEN) else f"a message of {record.name}",
            "process": record.process,
        }
        entry.update({name: value for name, value in vars(record).items() if name not in _OWN})
        if record.exc_info and record.exc_info[1] is not None:
            entry.update(where_it_failed(record.exc_info[1]))
        return _ENCODE(entry)


_word = lru_cache(maxsize=1024)(_ENCODE)  # a word as JSON has it; routes and clients come again


def _time_of(record: logging.LogRecord) -> str:
    return f"{_clock(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(maxsize=4)  # a second has many entries
def _clock(seconds: int) -> str:
    """Return a time, of seconds since the epoch, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def where_it_failed(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error and where it came from; not its message, which may hold a part of a text."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error": type(error).__name__, "trace": places[-12:]}


@contextmanager
def json_log(stream: TextIO | None = None) -> Iterator[None]:
    """Within the block, write what Locant and uvicorn log as JSON, and that others have logged something.

    Args:
        stream: By default standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    levels = {
        "locant": logging.INFO,
        "uvicorn.error": logging.WARNING,
        "python_multipart": logging.CRITICAL,  # of broken forms, which are refused
        "": logging.WARNING,
    }
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    # Nobody reads of these, and each would be looked up for every entry.
    looked_up = {name: getattr(logging, name) for name in ("_srcfile", "logThreads", "logMultiprocessing")}
    looked_up["logAsyncioTasks"] = getattr(logging, "logAsyncioTasks", True)
    try:
        for name in looked_up:
            setattr(logging, name, None)
        for logger, level in loggers.items():
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(level)
        yield
    finally:
        for name, value in looked_up.items():
            setattr(logging, name, value)
        for logger, handlers, propagate, level in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
