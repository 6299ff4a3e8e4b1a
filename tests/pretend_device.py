"""A second device where there is none: tensors that say they are on "meta", and have values all the same.

Within `pretend_device`, what is moved to "meta" or made there is wrapped. An operation that mixes wrapped
tensors with others of more than no dimension fails as it would on a GPU; so does numpy.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

PRETEND = torch.device("meta")


class Elsewhere(Tensor):
    """A tensor of the CPU that pretends to be on the second device."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> Self:
        made = Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=PRETEND,
            requires_grad=False,
        )
        made.here = here
        return made

    def __repr__(self) -> str:
        return f"Elsewhere({self.here!r})"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.tolist:
            return args[0].here.tolist()
        if getattr(func, "__self__", None) is Tensor.is_meta:  # or load_state_dict would leave it as it is
            return False
        if func is Tensor.numpy:
            if kwargs.get("force"):
                return args[0].here.numpy()
            raise TypeError("numpy cannot see tensors of the second device: .cpu() first")
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class _Pretending(TorchDispatchMode):
    """Catches what makes tensors on the second device."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class _Made(TorchFunctionMode):
    """Catches `torch.tensor` and `Tensor.new_tensor`, which never ask the dispatcher."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is Tensor.new_tensor and args[0].device == PRETEND:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(PRETEND)
        return func(*args, **kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    flat = list(_tensors((args, tuple(kwargs.values()))))
    wrapped = [x for x in flat if isinstance(x, Elsewhere)]
    name = func._schema.name
    asked = kwargs.get("device")
    away = bool(wrapped)
    if asked is not None:
        away = torch.device(asked) == PRETEND
        kwargs = {**kwargs, "device": torch.device("cpu")}
    elif name == "aten::copy_":
        away = isinstance(args[0], Elsewhere)
    elif wrapped and any(x.ndim and not isinstance(x, Elsewhere) for x in _together(name, args, flat)):
        raise RuntimeError(f"Expected all tensors to be on the same device ({name})")
    here_args = _each(args, _here)
    result = func(*here_args, **{key: _each(value, _here) for key, value in kwargs.items()})
    if func._schema.is_mutable and any(result is x for x in here_args):
        return args[[result is x for x in here_args].index(True)]
    if not away or name == "aten::_local_scalar_dense":
        return result
    return _each(result, Elsewhere)


def _tensors(value: Any) -> Iterator[Tensor]:
    """Those in what an operation takes; torch's own walk through trees takes most of a test's time."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)([_each(each, change) for each in value])
    return value


def _here(tensor: Tensor) -> Tensor:
    return tensor.here if isinstance(tensor, Elsewhere) else tensor


def _together(name: str, args: Any, flat: list[Tensor]) -> list[Tensor]:
    """What must be on one device: a GPU also takes indices from the CPU."""
    if (
        not name.startswith("aten::index")
        or not isinstance(args[0], Elsewhere)
        or not isinstance(args[1], list)
    ):
        return flat
    return [x for x in flat if not any(x is index for index in args[1])]


def _no_gradients(mode: bool = True) -> AbstractContextManager[None]:
    return torch.no_grad() if mode else nullcontext()


@contextmanager
def pretend_device() -> Iterator[torch.device]:
    """While it lasts there is a second device; its name is "meta"."""
    kept, inference = torch.__future__.get_overwrite_module_params_on_conversion(), torch.inference_mode
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.inference_mode = _no_gradients  # inference tensors cannot be wrapped
    try:
        with _Made(), _Pretending():
            yield PRETEND
    finally:
        torch.inference_mode = inference
        torch.__future__.set_overwrite_module_params_on_conversion(kept)
