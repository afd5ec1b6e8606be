"""What the check adds to a model worker (vLLM's `worker_extension_cls`): syncs and a trace."""

import warnings
from typing import Any

import torch

_SYNC = "synchronizing CUDA operation"


class Probe:
    """Called over HTTP, `/collective_rpc`."""

    model_runner: Any

    def watch_syncs(self) -> None:
        """Count steps, and the operations of torch that make the CPU wait for the GPU, from now on.

        torch does not report waits for an event: vLLM waits for one in each step, to read its
        tokens.
        """
        self._steps = self._syncs = 0
        execute = self.model_runner.execute_model

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._steps += 1
            return execute(*args, **kwargs)

        self.model_runner.execute_model = counted
        self._show = warnings.showwarning

        def show(message: Any, *args: Any, **kwargs: Any) -> None:
            if _SYNC in str(message):
                self._syncs += 1
            else:
                self._show(message, *args, **kwargs)

        warnings.showwarning = show
        warnings.filterwarnings("always", message=f".*{_SYNC}")
        if torch.cuda.is_available():
            torch.cuda.set_sync_debug_mode("warn")

    def syncs(self) -> dict[str, int]:
        """Stop counting; return the counts."""
        if torch.cuda.is_available():
            torch.cuda.set_sync_debug_mode("default")
        warnings.showwarning = self._show
        del self.model_runner.execute_model
        return {"steps": self._steps, "syncs": self._syncs}

    def begin_trace(self) -> None:
        """Begin to record what CPU and GPU do."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=kinds)
        self._profiler.start()

    def end_trace(self, path: str) -> None:
        """Write what was recorded, for chrome://tracing or Perfetto."""
        self._profiler.stop()
        self._profiler.export_chrome_trace(path)
