"""Sessions of ONNX Runtime, loaded with the first: a daemon does without it until something moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions


def load_session(graph: bytes, threads: int) -> InferenceSession:
    """A session on the CPU, in so many threads."""
    import onnxruntime  # noqa: PLC0415 - 20 MB

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waits would burn a core
    options.enable_mem_pattern = False  # 12 MB of plans: regions of a picture have many sizes
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def shrinkage_options() -> RunOptions:
    """Options of a run after which the session's arena gives its memory back."""
    import onnxruntime  # noqa: PLC0415 - loaded by now

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options
