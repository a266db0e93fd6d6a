"""Requests that are made up from the server's description of itself, and bodies that are made up from nothing."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import tiny_models
from starlette.testclient import TestClient

from locant.server import ServerSettings, build_app

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
BOUNDED = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(scope="module")
def client():
    app = build_app(tiny_models(), ServerSettings.parse({"limits": {"characters": 2_000}}))
    with TestClient(app, raise_server_exceptions=True) as found:
        yield found


OPERATIONS = [
    "POST /translate",
    "POST /translate/stream",
    "POST /translate_file",
    "GET /download_file/{name}",
    "POST /detect",
    "GET /languages",
    "GET /frontend/settings",
    "GET /health",
]


@pytest.fixture(scope="module")
def operations(client):
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


def test_all_operations_are_tried(operations):
    assert set(operations) == set(OPERATIONS)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_made_up_requests_are_answered_as_described(operations, operation, mode):
    if mode is GenerationMode.NEGATIVE and operation.startswith("GET"):
        pytest.skip("nothing in such a request can be wrong")

    @BOUNDED
    @given(case=operations[operation].as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(checks=CHECKS)

    ask()


@BOUNDED
@given(
    body=st.binary(max_size=200),
    kind=st.sampled_from(
        [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
            "a/b; c",
            "\xff",
        ]
    ),
)
def test_bodies_made_up_from_nothing_are_refused_with_a_sentence(client, body, kind):
    for path in ("/translate", "/translate/stream", "/detect", "/translate_file"):
        answer = client.post(path, content=body, headers={"content-type": kind.encode("latin-1")})
        assert 400 <= answer.status_code < 500, answer.text
        assert set(answer.json()) == {"error"}


@BOUNDED
@given(name=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40), value=st.binary(max_size=80))
def test_odd_headers_change_nothing(client, name, value):
    kept = "".join(character for character in name if character.isalnum() or character in "-_") or "x"
    if kept.lower() in ("host", "content-length", "transfer-encoding", "content-type", "authorization"):
        return
    allowed = bytes(byte for byte in value if byte >= 32 and byte != 127)
    answer = client.get("/languages", headers={kept: allowed})
    assert answer.status_code == 200
