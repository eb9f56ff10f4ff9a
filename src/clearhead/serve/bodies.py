"""Fields of requests in every encoding: JSON, urlencoded, multipart, and the query string."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, WithJsonSchema
from starlette.datastructures import UploadFile

from clearhead.errors import DataError

JSON, URLENCODED = "application/json", "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
EVERY = (JSON, URLENCODED, MULTIPART)

MOST_FIELDS = 2000
"""Fields of a form."""


@dataclass(frozen=True)
class Upload:
    """An uploaded file."""

    name: str
    content: bytes


def _upload(value: object) -> Upload:
    if not isinstance(value, Upload):
        raise ValueError("this is no uploaded file")
    return value


File = Annotated[
    Upload, PlainValidator(_upload), WithJsonSchema({"type": "string", "format": "binary"})
]


class Fields(BaseModel):
    """The fields of a request. Unknown ones are ignored; null is the default of a field."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    async def of(cls, request: Request) -> Self:
        """The fields of a request; those of the body come before those of the query string.

        Raises:
            DataError: the body is not readable, or a field is missing or wrong.
        """
        query = _by_name(request.query_params.multi_items())
        given = {**query, **await _body(request)}
        try:
            return cls.model_validate({name: x for name, x in given.items() if x is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = str(first["loc"][0]) if first["loc"] else "the request"
            raise DataError(f"{place}: {first['msg']}") from None

    @classmethod
    def described(cls, *encodings: str) -> dict[str, Any]:
        """The description of the body for OpenAPI, in encodings such as `EVERY`."""
        schema = cls.model_json_schema()
        content: dict[str, Any] = {name: {"schema": schema} for name in encodings}
        if JSON in content:
            needed = schema.get("required", ())
            properties = {
                name: each if name in needed else {"anyOf": [each, {"type": "null"}]}
                for name, each in schema["properties"].items()
            }
            content[JSON] = {"schema": {**schema, "properties": properties}}
        is_needed = bool(schema.get("required"))
        return {"requestBody": {"content": content, "required": is_needed}}

    @classmethod
    def in_query(cls) -> dict[str, Any]:
        """The description of the query string for OpenAPI."""
        schema = cls.model_json_schema()
        needed = schema.get("required", ())
        return {
            "parameters": [
                {"in": "query", "name": name, "schema": each, "required": name in needed}
                for name, each in schema["properties"].items()
            ]
        }


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == MULTIPART:
            most = request.app.state.server.settings.body
            async with request.form(max_fields=MOST_FIELDS, max_part_size=most) as form:
                return _by_name([(name, await _value(x)) for name, x in form.multi_items()])
        if kind == URLENCODED:
            text = (await request.body()).decode("utf-8", "replace")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
            return _by_name(pairs)
        if kind.endswith("json"):
            found = json.loads(await request.body() or b"{}")
            if not isinstance(found, dict):
                raise DataError("the body is no JSON object")
            return found
    except (ValueError, RecursionError) as error:
        raise DataError("the body cannot be read", why=str(error)[:200]) from None
    return {}


async def _value(value: str | UploadFile) -> str | Upload:
    if isinstance(value, str):
        return value
    return Upload(value.filename or "document", await value.read())


def _by_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The value of each name, or a list of them if it has several."""
    found = dict[str, list[Any]]()
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: each if len(each) > 1 else each[0] for name, each in found.items()}
