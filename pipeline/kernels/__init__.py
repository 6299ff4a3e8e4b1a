"""Kernels: functions that numba compiles, when narrated is built, else at the first call.

numba and LLVM take 208 MB of disk, 130 MB of memory and a second or two. `compile_ahead` makes a shared
object of the kernels that Python calls; where it lies beside this file, and was made of these very sources,
numba is not loaded at all. The modules of this folder import nothing but NumPy, so that a build needs little.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from importlib import import_module, machinery, util
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

_P = ParamSpec("_P")
_R = TypeVar("_R")

FOLDER = _HERE = Path(__file__).parent

_loading = threading.RLock()


class Kernel(Generic[_P, _R]):
    """A function that is compiled: ahead, at its first call, or some time before and kept by numba.

    It may call other kernels, of its own module or imported ones. As a decorator it takes no arguments; those
    that Python calls have `ahead` in its place.

    Attributes:
        types: numba's names of the types that it gives and takes; empty where it is not compiled ahead.
    """

    def __init__(self, function: Callable[_P, _R], types: tuple[str, ...] = ()) -> None:
        self.types = types
        self._function = function
        self._compiled: Callable[_P, _R] | None = None
        self._ahead: Callable[_P, _R] | None = None
        self._takes = [
            (n, np.dtype(name[:2]), name.count(":") - 1) for n, name in enumerate(types[1:]) if "[" in name
        ]
        update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call it; array arguments as the function says."""
        called = self._compiled or self._ahead
        if called is None:
            called = self._ahead = getattr(_compiled_ahead(), self.symbol, None) if self.types else None
        if called is None or (called is self._ahead and not self._fits(args)):
            called = self.dispatcher()
        return called(*args, **kwargs)

    @property
    def symbol(self) -> str:
        """Its name in the shared object."""
        return f"{self._function.__module__}.{self.__name__}".replace(".", "_")  # type: ignore[attr-defined]

    def _fits(self, args: tuple[Any, ...]) -> bool:
        """True where arrays are what it was compiled for: compiled code does not look."""
        return len(args) == len(self.types) - 1 and all(
            args[n].dtype == kind and args[n].ndim == axes and args[n].flags.c_contiguous
            for n, kind, axes in self._takes
        )

    def dispatcher(self) -> Callable[_P, _R]:
        """The function compiled by numba."""
        with _loading:
            if self._compiled is None:
                from numba import njit  # noqa: PLC0415 - see the head of this file

                self._link()
                self._compiled = njit(nogil=True, cache=True)(self._function)
            return self._compiled

    def _link(self) -> None:
        """Numba knows no `Kernel`: those that it calls give way to their dispatchers."""
        names: dict[str, Any] = self._function.__globals__
        for name in self._function.__code__.co_names:
            if isinstance(called := names.get(name), Kernel):
                names[name] = called.dispatcher()

    def export(self, library: Any) -> None:
        """Have numba's `CC` compile it."""
        self._link()
        gives, *takes = self.types
        library.export(self.symbol, f"{gives}({', '.join(takes)})")(self._function)


def ahead(gives: str, *takes: str) -> Callable[[Callable[_P, _R]], Kernel[_P, _R]]:
    """A kernel that may be compiled ahead, by the types that it gives and takes: "u1[:,::1]", "i8"."""
    return lambda function: Kernel(function, (gives, *takes))


@lru_cache(maxsize=1)
def _name() -> str:
    """The shared object's name: by its sources, so that no other version's is taken."""
    files = sorted(_HERE.glob("*.py"))
    return f"kernels_{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"


@lru_cache(maxsize=1)
def _compiled_ahead() -> Any:
    """The shared object as a module; None where there is none, or it does not fit this machine."""
    with _loading:
        try:
            path = FOLDER / f"{_name()}{machinery.EXTENSION_SUFFIXES[0]}"
            specification = util.spec_from_file_location(_name(), path)
            if specification is None or specification.loader is None:
                return None
            module = util.module_from_spec(specification)
            specification.loader.exec_module(module)
        except (ImportError, OSError):
            return None
        return module


def are_compiled_ahead() -> bool:
    """True where kernels run without numba."""
    return _compiled_ahead() is not None


def compile_ahead(folder: Path = FOLDER) -> Path:
    """Compile kernels into a shared object, for any processor of this kind; its path.

    Raises:
        Exception: of many kinds, where numba, a C++ compiler, Python's headers or setuptools is missing, or
            the folder may not be written.
    """
    import warnings  # noqa: PLC0415

    for other in folder.glob(f"kernels_*{machinery.EXTENSION_SUFFIXES[0]}"):
        other.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba means to drop this part some day
        aot: Any = import_module("numba.pycc")
        library = aot.CC(_name())
        library.output_dir = str(folder)
        for file in sorted(_HERE.glob("[!_]*.py")):
            for kernel in [*vars(import_module(f"{__name__}.{file.stem}")).values()]:
                if isinstance(kernel, Kernel) and kernel.types:
                    kernel.export(library)
        library.compile()
    _compiled_ahead.cache_clear()
    return folder / f"{_name()}{machinery.EXTENSION_SUFFIXES[0]}"
