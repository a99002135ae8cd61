"""The published schemas: one a name, of one version, and open to more keys."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gpu_profile.errors import SettingsError
from gpu_profile.schemas import SCHEMAS, load_schema


def list_objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every part of a schema that describes an object."""
    if isinstance(schema, list):
        for part in schema:
            yield from list_objects(part)
    if isinstance(schema, dict):
        if "object" in schema.get("type", ""):  # a name or a list of names
            yield schema
        yield from list_objects(list(schema.values()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_one_and_has_its_version(name: str) -> None:
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"gpu-profile/{name}-{SCHEMAS[name]}.json"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_document_stays_valid_while_keys_are_added(name: str) -> None:
    parts = list(list_objects(load_schema(name)))
    assert parts
    for part in parts:
        assert part.get("additionalProperties") is not False
        assert part.get("unevaluatedProperties") is not False


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_key_that_must_be_there_is_described(name: str) -> None:
    for part in list_objects(load_schema(name)):
        assert set(part.get("required", ())) <= set(part.get("properties", ()))
    assert not Draft202012Validator(load_schema(name)).is_valid("no document")


def test_a_caller_may_change_what_it_gets() -> None:
    load_schema("run").clear()
    assert load_schema("run")["$id"] == "gpu-profile/run-1.json"


@pytest.mark.parametrize("name", ["page", "", "run-1.json", "../schemas/run"])
def test_an_unknown_schema_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="There are answer, ci, comparison, findings"):
        load_schema(name)
