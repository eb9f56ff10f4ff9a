"""Requests that Schemathesis makes from the description of the server.

CLEARHEAD_CASES sets how many are made for each route: 250 are about 10,000 in all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from exported_models import random_folder
from model_folders import write_models
from running_server import RunningServer, running

CASES = int(os.environ.get("CLEARHEAD_CASES", "15"))

UNCHECKED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("schema")
    write_models(folder / "models")
    translator = random_folder(folder / "model", languages=("en", "de"))
    with running(translator, folder / "models/texts", storage=folder / "store") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_answers_are_as_described(served: RunningServer, mode: GenerationMode) -> None:
    described = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    asked = 0
    for found in described.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            max_examples=CASES,
            deadline=None,
            suppress_health_check=UNCHECKED,
            derandomize=True,
            database=None,
        )
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            case.call_and_validate(checks=CHECKS)

        try:
            ask()
        except Unsatisfiable:
            continue  # such as a wrong request without parameters
    assert asked > CASES
    print(f"{asked:,} requests")
