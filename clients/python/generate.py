#!/usr/bin/env python3
"""Writes `harvest_client/models.py` and `harvest_client/operations.py` from the document of the API.

    python3 generate.py            write them
    python3 generate.py --check    fail when they are not what the document says

Needs nothing but Python. Schemas become TypedDicts and Literals, so that what the server sends is what one has in hand, and
a type checker knows what is in it; operations become methods.
"""

import json
import keyword
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "openapi.json"
METHODS = ("get", "post", "put", "patch", "delete")
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}
NOTE = '"""{}. Written by generate.py from openapi.json: do not change it by hand."""\n\n'


def class_name(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


def snake(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def reference(schema: dict) -> str | None:
    return class_name(schema["$ref"].rsplit("/", 1)[1]) if "$ref" in schema else None


def type_of(schema: dict | bool, quoted: bool = False) -> str:
    """The Python type of a schema; models that may not be there yet are quoted."""
    if not isinstance(schema, dict):
        return "Any"
    if name := reference(schema):
        return f'"{name}"' if quoted else name
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    for several in ("oneOf", "anyOf"):
        if several in schema:
            return union([type_of(one, quoted) for one in schema[several]])
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return type_of(schema["allOf"][0], quoted)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return union([type_of({**schema, "type": kind}, quoted) for kind in kinds])
    if kinds == "array":
        return f"list[{type_of(schema.get('items', True), quoted)}]"
    if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {type_of(schema['additionalProperties'], quoted)}]"
    return SIMPLE.get(kinds, "Any")


def union(types: list[str]) -> str:
    known = list(dict.fromkeys(types))
    if len(known) == 1:
        return known[0]
    # `"Model" | None` is no type at run time.
    if any(one.startswith('"') for one in known):
        return '"' + " | ".join(one.strip('"') for one in known) + '"'
    return " | ".join(known)


def words(text: str | None, indent: str, first: str = "") -> str:
    if not text:
        return ""
    paragraphs = [textwrap.fill(part, 116 - len(indent)) for part in text.split("\n\n")]
    return textwrap.indent(f'"""{first}' + "\n\n".join(paragraphs) + '"""', indent) + "\n"


def parts_of(schema: dict) -> tuple[list[str], dict, set]:
    """What a model builds on, and its own fields with those of them that are always there."""
    bases, fields, required = [], {}, set()
    for part in schema.get("allOf", [schema]):
        if name := reference(part):
            bases.append(name)
        else:
            fields |= part.get("properties", {})
            required |= set(part.get("required", []))
    return bases, fields, required


def fields_of(name: str, schemas: dict) -> set:
    """All fields of a model, with those of what it builds on."""
    by_class = {class_name(one): schema for one, schema in schemas.items()}
    bases, fields, _ = parts_of(by_class.get(name, {}))
    return set(fields).union(*(fields_of(base, schemas) for base in bases))


def model(name: str, schema: dict, schemas: dict) -> str:
    title = class_name(name)
    if title == "Event":
        # The fields of an event's data follow from its type; there are as many as types.
        kinds = [one["properties"]["type"]["enum"][0] for one in schemas["EventBody"]["oneOf"]]
        kinds = f"Literal[{', '.join(json.dumps(kind) for kind in kinds)}]"
        about = words(schema.get("description"), "    ")
        return f"class Event(TypedDict):\n{about}    seq: int\n    at: str\n    session_id: str\n    type: {kinds}\n    data: NotRequired[dict[str, Any]]\n"
    is_model = "properties" in schema or ("allOf" in schema and len(schema["allOf"]) > 1)
    if not is_model:
        about = "".join(f"# {line}\n" for line in textwrap.wrap(schema.get("description", ""), 116))
        return f"{about}{title} = {type_of(schema, quoted=True)}\n"
    bases, fields, required = parts_of(schema)
    inherited = set().union(*(fields_of(base, schemas) for base in bases))
    lines = [f"class {title}({', '.join(bases) or 'TypedDict'}):\n", words(schema.get("description"), "    ")]
    for field, value in fields.items():
        if field in inherited:
            continue
        if keyword.iskeyword(field):
            sys.exit(f"the field {field} of {title} cannot be written in Python")
        kind = type_of(value, quoted=True)
        lines.append(f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}\n")
        about = value.get("description") if isinstance(value, dict) else None
        lines.append(words(about, "    "))
    if len(lines) == 2 and not lines[1]:
        lines.append("    pass\n")
    return "".join(lines)


def models(document: dict) -> str:
    schemas = document["components"]["schemas"]
    text = NOTE.format("What is sent and received") + "from typing import Any, Literal, NotRequired, TypedDict\n\n"
    done, waiting = [], {name: schema for name, schema in schemas.items() if name != "EventBody"}
    # What others build on comes first; what they only mention is quoted.
    while waiting:
        builds_on = lambda name: [] if name == "Event" else parts_of(schemas[name])[0]
        ready = [name for name in waiting if all(base in done for base in builds_on(name))]
        for name in ready:
            text += "\n" + model(name, waiting.pop(name), schemas) + "\n"
            done.append(class_name(name))
        if not ready:
            sys.exit(f"models build on each other in a circle: {', '.join(waiting)}")
    return text.rstrip() + "\n"


def answer_of(operation: dict) -> str:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            content = response.get("content", {})
            if "application/json" in content:
                return type_of(content["application/json"]["schema"])
            return "str" if content else "None"
    return "None"


def is_stream(operation: dict) -> bool:
    return list(operation["responses"].get("200", {}).get("content", {})) == ["text/event-stream"]


def method(path: str, verb: str, operation: dict) -> str:
    parameters = [one for one in operation.get("parameters", [])]
    places = {kind: [one for one in parameters if one["in"] == kind] for kind in ("path", "query", "header")}
    arguments = ["self"] + [f"{snake(one['name'])}: {type_of(one['schema'])}" for one in places["path"]]
    body = operation.get("requestBody")
    if body:
        arguments.append(f"body: {type_of(body['content']['application/json']['schema'])}")
    optional = [one for kind in ("query", "header") for one in places[kind]]
    if optional:
        arguments.append("*")
    for one in optional:
        kind = type_of(one["schema"])
        kind = kind if "None" in kind else f"{kind} | None"
        arguments.append(f"{snake(one['name'])}: {kind} = None")
    about = [operation.get("summary", ""), operation.get("description", "")]
    about += [f"{snake(one['name'])}: {one['description']}" for one in parameters if one.get("description")]
    address = re.sub(r"\{(\w+)\}", lambda found: "{_part(" + snake(found[1]) + ")}", path)
    given = [f'"{verb.upper()}"', f'f"{address}"' if "{" in address else f'"{address}"']
    for kind, name in (("query", "query"), ("header", "headers")):
        if places[kind]:
            pairs = ", ".join(f'"{one["name"]}": {snake(one["name"])}' for one in places[kind])
            given.append(f"{name}={{{pairs}}}")
    if body:
        given.append("body=body")
    answer = answer_of(operation)
    head = f"    def {snake(operation['operationId'])}({', '.join(arguments)}) -> {answer}:\n"
    if len(head) > 120:
        head = f"    def {snake(operation['operationId'])}(\n        {', '.join(arguments)},\n    ) -> {answer}:\n"
    text = words("\n\n".join(part for part in about if part), "        ")
    return f"{head}{text}        return self._call({', '.join(given)})\n"


def operations(document: dict) -> str:
    text = NOTE.format("Every operation of the API, by its name")
    text += "from typing import Any, Literal\nfrom urllib.parse import quote\n\nfrom .models import *\n\n\n"
    text += 'def _part(value: object) -> str:\n    return quote(str(value), safe="")\n\n\n'
    text += "class Operations:\n"
    text += "    def _call(self, method: str, path: str, *, query: Any = None, headers: Any = None, body: Any = None) -> Any:\n"
    text += "        raise NotImplementedError\n"
    for path, item in document["paths"].items():
        for verb in METHODS:
            # A stream that never ends is no answer; `Harvest.follow` reads those of sessions.
            if verb in item and not is_stream(item[verb]):
                text += "\n" + method(path, verb, item[verb])
    return text


def main() -> int:
    document = json.loads(DOCUMENT.read_text())
    written = {"models.py": models(document), "operations.py": operations(document)}
    for name, text in written.items():
        file = HERE / "harvest_client" / name
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f"clients/python/harvest_client/{name} is not what openapi.json says: python3 clients/python/generate.py")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
