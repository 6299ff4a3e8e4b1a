"""Compiles the kernels into the wheel that hatchling builds."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface[Any]):
    """The hook that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the shared object, that of the tree where it is of these sources.

        Without a compiler the wheel has none, and needs the extra `jit`.
        """
        sys.path.insert(0, self.root)
        from pipeline import kernels  # noqa: PLC0415

        editable = version == "editable"  # then it is looked for in the tree
        folder = kernels.FOLDER if editable else Path(tempfile.mkdtemp(prefix="kernels"))
        there = [*kernels.FOLDER.glob("kernels_*.so")] if kernels.are_compiled_ahead() else []
        try:
            path = there[0] if len(there) == 1 else kernels.compile_ahead(folder)
        except Exception as error:  # noqa: BLE001 - whatever numba, setuptools and the compiler raise
            self.app.display_warning(f"kernels are not compiled, narrated will need its extra jit: {error}")
            return
        if not editable:
            build_data["force_include"][str(path)] = f"pipeline/kernels/{path.name}"
        build_data |= {"pure_python": False, "infer_tag": True}
