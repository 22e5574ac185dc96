"""Documents against the published schemas."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"


def problems(name: str, text: str) -> list[str]:
    """What is wrong with a document under schemas/NAME.schema.json."""
    registry = Registry()
    for path in SCHEMAS.glob("*.schema.json"):
        registry = registry.with_resource(path.name, Resource.from_contents(json.loads(path.read_text())))
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    validator = Draft202012Validator(schema, registry=registry)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(json.loads(text))]
