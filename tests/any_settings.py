"""Settings of every kind, drawn from the schema: what hypothesis tries the laws of settings on."""

from typing import Any

from hypothesis import strategies as st

from clearhead.config import SECTIONS, Config

Schema = dict[str, Any]
SCHEMA = Config.model_json_schema()
FIELDS: dict[str, Schema] = {
    f"{section}.{name}": field
    for section, kind in SECTIONS.items()
    for name, field in SCHEMA["$defs"][kind.__name__]["properties"].items()
}
"""The schema of every setting, by section.name."""


def upper(number: Schema) -> float:
    return number.get("maximum", number.get("exclusiveMaximum"))


def lower(number: Schema) -> float:
    return number.get("minimum", number.get("exclusiveMinimum"))


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Any value that the schema allows."""
    if "anyOf" in schema:
        return st.one_of(map(values, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind in ("integer", "number"):
        if kind == "integer":
            return st.integers(lower(schema), upper(schema))
        open_ends = {
            "exclude_min": "exclusiveMinimum" in schema,
            "exclude_max": "exclusiveMaximum" in schema,
        }
        return st.floats(lower(schema), upper(schema), **open_ends)
    if kind == "string" and "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=3)
    texts = st.text(
        st.characters(exclude_categories=["Cs"]), max_size=min(schema.get("maxLength", 9), 9)
    )
    return {"boolean": st.booleans(), "null": st.none(), "string": texts}[kind]
