"""The log of the server: a line of JSON for each request and event, without texts, paths of requests or keys."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

_ENCODE = json.JSONEncoder(ensure_ascii=True, default=str).encode
_WRITTEN = ("locant", "uvicorn")  # loggers whose messages hold nothing of what is sent
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and whatever was given besides.

    Of what other packages log, their name alone is written: their messages may hold a part of a text.
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
        entry.update({name: value for name, value in vars(record).items() if name not in _OWN})
        if record.exc_info and record.exc_info[1] is not None:
            entry.update(where_it_failed(record.exc_info[1]))
        return _ENCODE(entry)


def where_it_failed(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error and where it came from; not its message, which may hold a part of a text."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error": type(error).__name__, "trace": places[-12:]}
