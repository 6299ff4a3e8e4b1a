"""Kernels: functions that numba compiles, with numba loaded at the first call and not before.

numba and LLVM take 130 MB and half a second; a camera before which nothing happens calls no kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_loading = threading.RLock()


class Kernel(Generic[_P, _R]):
    """A function that is compiled at its first call, or fetched from numba's cache; free of the GIL.

    It may call other kernels, of its own module or imported ones. As a decorator, without arguments.
    """

    def __init__(self, function: Callable[_P, _R]) -> None:
        self._function = function
        self._compiled: Callable[_P, _R] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call it; array arguments as the function says."""
        return (self._compiled or self.dispatcher())(*args, **kwargs)

    def dispatcher(self) -> Callable[_P, _R]:
        """The compiled function; numba knows no `Kernel`, so those that it calls give way to theirs."""
        with _loading:
            if self._compiled is None:
                from numba import njit  # noqa: PLC0415 - see the head of this file

                names: dict[str, Any] = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(called := names.get(name), Kernel):
                        names[name] = called.dispatcher()
                self._compiled = njit(nogil=True, cache=True)(self._function)
            return self._compiled
