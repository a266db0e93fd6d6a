"""The log of the server: a line of JSON for each event, without texts, paths of requests or keys."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and whatever was given besides."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "process": record.process,
        }
        entry.update({name: value for name, value in vars(record).items() if name not in _OWN})
        if record.exc_info and record.exc_info[1] is not None:
            entry.update(where_it_failed(record.exc_info[1]))
        return json.dumps(entry, ensure_ascii=True, default=str)


def where_it_failed(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error and where it came from; not its message, which may hold a part of a text."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error": type(error).__name__, "trace": places[-12:]}


def start_logging(stream: TextIO | None = None) -> None:
    """Write what Locant's server and uvicorn log as JSON.

    Args:
        stream: By default standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("locant.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "locant.server" else logging.WARNING)
