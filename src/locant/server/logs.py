"""The log of the server: a line of JSON for each request and event, without texts, paths of requests or keys."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

_ENCODE = json.JSONEncoder(ensure_ascii=True, default=str).encode
_WRITTEN = ("locant", "uvicorn")  # loggers whose messages hold nothing of what is sent
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and whatever was given besides.

    Of what other packages log, their name alone is written, and of an error its kind and where it came from: messages
    may hold a part of a text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith(_WRITTEN) else f"a message of {record.name}",
            "process": record.process,
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1]:
            frames = traceback.extract_tb(record.exc_info[2])[-12:]
            entry["error"] = type(record.exc_info[1]).__name__
            entry["trace"] = [f"{frame.filename}:{frame.lineno}" for frame in frames]
        return _ENCODE(entry)
