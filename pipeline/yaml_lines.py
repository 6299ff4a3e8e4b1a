"""YAML with unique text keys, and the line of each for error messages."""

from collections.abc import Hashable
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]  # keys and list indices from the root down

_STRING, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """Broken YAML, a repeated key, or a key that is no text; `line` counts from 1, or is None."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line

    def within(self, name: object) -> str:
        """The message with the file's name, and the line where it is known."""
        return f"{name}: {self}" if self.line is None else f"{name}:{self.line}: {self}"


class _Loader(yaml.SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except YamlError:
            raise
        except (ValueError, LookupError, AttributeError, OverflowError):  # of 2026-13-45 or !!bool 7
            kind = node.tag.rpartition(":")[2]
            message = f"broken YAML: not a valid {kind}: put it in quotes if it is text"
            raise YamlError(message, node.start_mark.line + 1) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = set[str]()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag not in {_STRING, _MERGE}:
                raise YamlError(f"the key {key.value!r} is not text: put it in quotes", line)
            if key.value in names:
                raise YamlError(f"the key {key.value!r} is given twice here: keep one", line)
            names.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_yaml(text: str) -> Any:
    """Plain values; safe tags only; raises YamlError."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise YamlError(f"broken YAML: {error.problem or error.context}", line) from None
    except RecursionError:
        raise YamlError("broken YAML: nested too deeply", None) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise YamlError(f"broken YAML: the character {chr(error.character)!a} is not allowed", line) from None


def find_line(text: str, path: KeyPath) -> tuple[int, bool]:
    """Line of a key in YAML that can be read, or of its nearest parent; True where it is the key's own."""
    node, line = yaml.compose(text, yaml.SafeLoader), 1
    for part in path:
        children: dict[object, tuple[yaml.Node, yaml.Node]] = {}
        if isinstance(node, yaml.MappingNode):
            children = {key.value: (key, value) for key, value in node.value}
        elif isinstance(node, yaml.SequenceNode):
            children = {index: (item, item) for index, item in enumerate(node.value)}
        if part not in children:
            return line, False
        key, node = children[part]
        line = key.start_mark.line + 1
    return line, True
