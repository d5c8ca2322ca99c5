"""A server to talk to, over HTTP, with nothing but the standard library."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .models import Event
from .operations import Operations

_FINISHED = "task.finished"


class Problem(Exception):
    """What the server refused, and why. `harvest explain CODE` tells more about a code."""

    def __init__(self, status: int, document: dict[str, Any], retry_after: int | None = None) -> None:
        self.status = status
        self.code: str = document.get("code", "")
        self.detail: str = document.get("detail", "")
        self.field: str | None = document.get("field")
        self.help: str | None = document.get("help")
        self.retry_after = retry_after
        where = f" ({self.field})" if self.field else ""
        way_out = f"; {self.help}" if self.help else ""
        super().__init__(f"{self.code}: {self.detail}{where}{way_out}")


class Harvest(Operations):
    """
    >>> harvest = Harvest("http://127.0.0.1:7070", "hv_…")
    >>> task = harvest.task_create({"prompt": "Make the failing test pass", "repository": "shop"})
    >>> for event in harvest.follow(task["sessions"][0]["id"]):
    ...     print(event["type"])
    """

    def __init__(self, url: str, token: str, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of the form https://host")
        self._parts = parts
        self._token = token
        self._timeout = timeout

    def _call(self, method: str, path: str, *, query: Any = None, headers: Any = None, body: Any = None) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            path = f"{path}?{urlencode(given)}"
        with self._ask(method, path, headers or {}, body) as response:
            text = response.read()
        if not text:
            return None
        if response.headers.get_content_type() == "application/json":
            return json.loads(text)
        return text.decode(errors="replace")

    def follow(self, session: str, after: int = 0, wait: float = 1.0) -> Iterator[Event]:
        """The journal of a session behind `after`, and whatever is written from then on, until its task has ended.

        Nothing is left out and nothing comes twice, however often the connection is lost meanwhile; between two tries it
        waits for `wait` seconds."""
        path = f"/api/sessions/{quote(session, safe='')}/events"
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                with self._ask("GET", path, headers, None) as response:
                    for event in _events(response):
                        after = event["seq"]
                        yield event
                        if event["type"] == _FINISHED:
                            return
            except (OSError, HTTPException):
                pass
            time.sleep(wait)

    def _ask(self, method: str, path: str, headers: dict[str, str | None], body: Any) -> "_Answer":
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = kind(str(self._parts.hostname), self._parts.port, timeout=self._timeout)
        sent = {"Authorization": f"Bearer {self._token}"} | {name: value for name, value in headers.items() if value is not None}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body=data, headers=sent)
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem(response)
        except BaseException:
            connection.close()
            raise
        return _Answer(connection, response)


class _Answer:
    """An answer whose connection ends with it."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def __enter__(self) -> HTTPResponse:
        return self._response

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _problem(response: HTTPResponse) -> Problem:
    text = response.read()
    try:
        document = json.loads(text)
    except ValueError:
        document = {"detail": text.decode(errors="replace")[:500]}
    wait = response.headers.get("Retry-After", "")
    return Problem(response.status, document, int(wait) if wait.isdigit() else None)


def _events(response: HTTPResponse) -> Iterator[Event]:
    """Events with a number; others are of the connection alone."""
    number, data = None, ""
    for raw in response:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if number is not None and data:
                yield json.loads(data)
            number, data = None, ""
        elif line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            data += line[6:]
