"""Our subclasses of vLLM's workers, which vLLM starts on each rank."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm.platforms import current_platform

from engine.worker.executor import leave_stops_to_engine
from engine.worker.heap import keep_heap_trimmed
from engine.worker.logs import log_as_vllm_does
from engine.worker.report import ReportPart, report_folder

_Worker: Any = object

log_as_vllm_does()  # each computing process of vLLM imports this file before it loads anything


class _Stopped(_Worker):
    """What all workers add to vLLM's; comes first in the method resolution order."""

    def init_device(self) -> None:
        """Prepare the device and the runner, whose requests may resume an answer."""
        if not self.use_v2_model_runner:
            from engine.worker.v1.resume import begin_with_resumed_tokens

            begin_with_resumed_tokens()
        super().init_device()

    def compile_or_warm_up_model(self) -> Any:
        """Warm the model up; the engine alone stops this rank from now on."""
        spent = super().compile_or_warm_up_model()
        leave_stops_to_engine()
        return spent


class _Profiled(_Worker):
    """What the speculating workers add to ours."""

    def compile_or_warm_up_model(self) -> Any:
        """Warm the model and its draft head up, measure steps, then listen for other heads."""
        from engine.worker.step_profile import profile_steps

        spent = super().compile_or_warm_up_model()
        self.model_runner.warm_up_head()
        profile_steps(self.model_runner)
        if self.model_runner.speculation is not None:
            self.model_runner.speculation.listen()
        return spent


def _runners(*, is_second: bool) -> Any:
    """Return the module with our subclasses of one of vLLM's runners."""
    if is_second:
        from engine.worker.v2 import runner as second
        from engine.worker.v2.speculator import take_our_speculator

        take_our_speculator()
        return second
    from engine.worker.v1 import runner as first

    return first


if TYPE_CHECKING or not current_platform.is_cpu():
    from vllm.v1.worker.gpu_worker import Worker

    class PlainWorker(_Stopped, Worker):
        """The non-speculating worker for GPUs."""

    class HybridWorker(_Profiled, PlainWorker):
        """The speculating worker for GPUs."""

        def _make_model_runner(self) -> Any:
            runners = _runners(is_second=self.use_v2_model_runner)
            return runners.HybridGPUModelRunner(self.vllm_config, self.device)

else:
    # vLLM's CPU worker must be imported before torch's shared memory is used.
    from vllm.v1.worker.cpu_worker import CPUWorker

    class PlainWorker(_Stopped, CPUWorker):
        """The non-speculating worker for CPUs."""

        def init_device(self) -> None:
            """Prepare the device and the runner, without weights; install our CPU kernels."""
            super().init_device()
            if not self.vllm_config.additional_config["specgate"]["cpu_kernels"]:
                return
            from engine.worker.attention import attend_with_ours

            if not self.use_v2_model_runner:
                from engine.worker.v1.slots import map_slots_alone

                map_slots_alone()
            attend_with_ours()
            if self.model_config.enforce_eager:
                from engine.worker.linear import pack_linear_layers

                pack_linear_layers(Path(self.model_config.model))

        def compile_or_warm_up_model(self) -> Any:
            """Choose what computes the layers, warm the model up, and state its exactness."""
            if self.vllm_config.additional_config["specgate"]["cpu_kernels"]:
                from engine.worker.decoder import compute_in_one_call

                runner = self.model_runner
                groups = [group.layer_names for group in runner.kv_cache_config.kv_cache_groups]
                compute_in_one_call(runner.model, self.vllm_config, groups)
            spent = super().compile_or_warm_up_model()
            from engine.worker.exactness import publish, state_exactness

            if self.rank == 0:
                engine = self.parallel_config.data_parallel_index
                found = state_exactness(self.model_runner.model, self.vllm_config)
                publish(found, ReportPart(report_folder(), "exactness", engine))
            return spent

    class HybridWorker(_Profiled, PlainWorker):
        """The speculating worker for CPUs."""

        def init_device(self) -> None:
            """Prepare the device and our runner."""
            runners = _runners(is_second=self.use_v2_model_runner)
            super().init_device()
            if not self.use_v2_model_runner:
                from engine.worker.v1.verification import mend_verification_on_cpus

                mend_verification_on_cpus()
            # vLLM creates its runner inline; nothing has been loaded into it yet.
            self.model_runner = runners.HybridCPUModelRunner(self.vllm_config, self.device)

        def compile_or_warm_up_model(self) -> Any:
            """Also trim the heap from now on: on a CPU it holds all tensors."""
            spent = super().compile_or_warm_up_model()
            keep_heap_trimmed()
            return spent
