"""YAML with the line of every key, so that an error says where to look."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

KeyPath = tuple[str | int, ...]
"""Where a value stands: keys and list indices from the root down."""

MOST_VALUES = 100_000
"""Values with all aliases expanded: nine levels of nine aliases each would be 387 million."""


class YamlError(ValueError):
    """The text is no YAML that a configuration may be written in.

    Attributes:
        line: 1-based line of the mistake, or None.
    """

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line

    def within(self, name: object) -> str:
        """The message with the file's name, and the line where it is known."""
        return f"{name}: {self}" if self.line is None else f"{name}:{self.line}: {self}"


@dataclass(frozen=True, slots=True)
class YamlTree:
    """Plain values and the 1-based line of each key path."""

    values: object
    lines: dict[KeyPath, int]

    def line(self, path: KeyPath) -> int | None:
        """Line of the path or of its nearest parent that is written in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def read_yaml(text: str) -> YamlTree:
    """Plain values (safe tags only) with their lines.

    Raises:
        YamlError: broken YAML, a repeated key, or a key that is no string.
    """
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise YamlError(f"broken YAML: the character {chr(error.character)!a} is not allowed", line) from None
    try:
        root = loader.get_single_node()
        lines: dict[KeyPath, int] = {(): 1}
        values = _value(loader, root, (), lines) if root is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(
            f"broken YAML: {error.problem or error.context}", mark.line + 1 if mark else None
        ) from None
    except RecursionError:
        raise YamlError("broken YAML: nested too deeply, or an alias that contains itself", None) from None
    except (ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(f"broken YAML: {error}", None) from None
    finally:
        loader.dispose()
    return YamlTree(values, lines)


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int]) -> object:
    if len(lines) > MOST_VALUES:
        raise YamlError(f"broken YAML: more than {MOST_VALUES:,} values: do aliases multiply?", None)
    if isinstance(node, yaml.MappingNode):
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = _constructed(loader, key_node)
            if not isinstance(key, str):
                raise YamlError(f"the key {key!r} is not text: put it in quotes", line)
            if key in values:
                raise YamlError(f"the key {key!r} is given twice here: keep one", line)
            lines[(*path, key)] = line
            values[key] = _value(loader, value_node, (*path, key), lines)
        return values
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_value(loader, item, (*path, index), lines))
        return items
    return _constructed(loader, node)


def _constructed(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, LookupError, AttributeError):  # whatever PyYAML meets in 2026-13-45 or !!bool 7
        kind = node.tag.rpartition(":")[2]
        message = f"broken YAML: not a valid {kind}: put it in quotes if it is text"
        raise YamlError(message, node.start_mark.line + 1) from None
