"""Register the hooks in a torch that was just imported. Python 3.8, stdlib only."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

from gpu_profile_marks import modules, nvtx
from gpu_profile_marks.backward import Backward
from gpu_profile_marks.compiled import mark_compiled_steps
from gpu_profile_marks.ending import AT_END, Ending
from gpu_profile_marks.forwards import Forwards, watch_models, watch_replays
from gpu_profile_marks.hooks import make_global_hook
from gpu_profile_marks.owners import OwnerHooks, leave_hooks_to_python
from gpu_profile_marks.phases import OptimizerMarks, mark_calls
from gpu_profile_marks.ranges import SWITCH, Ranges
from gpu_profile_marks.step_counter import open_wanted
from gpu_profile_marks.step_marks import StepMarks, watch_optimizers
from gpu_profile_marks.steps import Steps
from gpu_profile_marks.torch_trace import Annotations, open_trace
from gpu_profile_marks.variables import FILE, LEVEL
from gpu_profile_marks.window import make_window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_profile_marks.torch_trace import TorchTrace
    from gpu_profile_marks.window import Window

DOMAIN = "gpu-profile"
_FILE_WORKER = "torch.utils.data._utils.worker"


def install(torch: Any, environ: Mapping[str, str], domain: Any = None) -> bool:  # noqa: ANN401 - torch
    """Mark steps, and modules at the level `modules` or `ops`. Returns whether it does, and pauses
    can be marked too.

    Without a tool that listens, the program stays as it is, or has its steps timed if there is a
    file for them.
    """
    trace = None
    try:
        trace = None if _is_data_worker() else open_trace(torch, environ)
        if trace is not None:
            Ranges.domain = Annotations(torch, trace, {})
            _sleep_between_windows(environ)
        if trace or open_marks(domain) or (environ.get(FILE) and not _is_data_worker()):
            SWITCH.on = True
            _refuse_older(torch)
            _install(torch, environ, trace)
    except Exception as error:
        # fail() says nothing of marks that are off already.
        SWITCH.on = True
        SWITCH.fail(error)
    return SWITCH.on and trace is None


def open_marks(domain: Any = None) -> bool:  # noqa: ANN401 - nvtx.Domain
    """Open our NVTX domain. Returns whether a tool listens, and the process is to be marked."""
    domain = domain or Ranges.domain or nvtx.open_domain(DOMAIN)
    if domain is None or _is_data_worker():
        return False
    Ranges.domain = domain
    SWITCH.on = True
    _sleep_between_windows(os.environ)
    return True


def _sleep_between_windows(environ: Mapping[str, str]) -> None:
    SWITCH.is_wanted = open_wanted(environ.get(FILE, "")) or SWITCH.is_wanted


def _refuse_older(torch: Any) -> None:  # noqa: ANN401 - torch
    """Raise RuntimeError for a torch before 2.3, the first with what the marks use.

    Python's own words for what is missing would blame a circular import, for torch is being
    imported now.
    """
    if not hasattr(getattr(torch, "compiler", None), "is_compiling"):
        version = getattr(torch, "__version__", "of an unknown version")
        raise RuntimeError(f"torch {version} is too old for marks, which need 2.3 or newer")


def _install(torch: Any, environ: Mapping[str, str], trace: TorchTrace | None) -> None:  # noqa: ANN401 - torch
    import torch.optim.optimizer as optimizers
    import torch.utils.data.dataloader as loaders

    compiling = torch.compiler.is_compiling
    window = make_window(torch, environ, trace)
    steps = StepMarks(torch, Steps(), window)
    level = environ.get(LEVEL, "") if Ranges.domain is not None else "steps"
    marks = modules.ModuleMarks(steps.at_forward)
    owners = None
    if level in ("modules", "ops"):
        marks = modules.EveryModuleMarks(steps.at_forward, Backward(torch))
        AT_END.append(marks.end)
        _hook_every_module(torch, marks)
    else:
        owners = OwnerHooks(torch)
        owners.know_modules(torch.nn.modules.module)
        leave_hooks_to_python(torch)
    modules.set_marks(marks, compiling)
    if isinstance(window, Ending) and trace is None and not window.is_manual:
        _count_forwards(torch, steps, window, owners)
    watch_optimizers(torch, steps, owners.hook_owners if owners is not None else None)
    modules.mark_compiled(torch.nn.Module)
    of_optimizer = OptimizerMarks(steps, compiling)
    optimizers.register_optimizer_step_pre_hook(of_optimizer.before)
    optimizers.register_optimizer_step_post_hook(of_optimizer.after)
    of_optimizer.count_skipped(torch)
    mark_calls(torch, loaders._BaseDataLoaderIter, "__next__", "data")
    mark_calls(torch, torch.autograd, "backward", "backward", lambda: steps.steps.backward)
    mark_compiled_steps(torch, steps, owners.hook_compiled if owners is not None else None)
    if trace is not None:
        _begin_with_cuda(torch, trace, window)
    atexit.register(_finish, steps, os.getpid())
    os.register_at_fork(after_in_child=_after_fork)


def _count_forwards(
    torch: Any,  # noqa: ANN401 - torch
    steps: StepMarks,
    ending: Ending,
    owners: OwnerHooks | None,
) -> None:
    hook = owners.hook_called if owners is not None else None
    steps.forwards = Forwards(torch, ending.forget_end, hook)
    watch_models(torch, steps.forwards.add)
    watch_replays(torch, steps.at_replay)


def _begin_with_cuda(torch: Any, trace: TorchTrace, window: Window | Ending | None) -> None:  # noqa: ANN401 - torch
    """Begin a trace without a window when the program starts CUDA: earlier, we would start it."""
    trace.yield_to_program()
    # Also where an error has turned the marks off: what was recorded until then is told.
    atexit.register(_stop_trace, trace, os.getpid())
    if isinstance(window, Ending) and not window.is_manual:
        torch.cuda._lazy_call(lambda: SWITCH.guard(trace.start))


def _hook_every_module(torch: Any, marks: modules.EveryModuleMarks) -> None:  # noqa: ANN401 - torch
    of_module = torch.nn.modules.module
    of_module.register_module_forward_pre_hook(make_global_hook(torch, marks.enter))
    after = make_global_hook(torch, marks.leave)
    of_module.register_module_forward_hook(after, always_call=True)
    _hide_hooks_from_warning(of_module)


def _hide_hooks_from_warning(of_module: Any) -> None:  # noqa: ANN401 - torch.nn.modules.module
    """Leave our hooks out of the question whose only use is a warning of torch.compile.

    It would be given for every compiled module, and raised under `-W error`.
    """
    if not hasattr(of_module, "_has_any_global_hook"):
        return
    of_module._has_any_global_hook = lambda: bool(
        of_module._global_backward_pre_hooks
        or of_module._global_backward_hooks
        or len(of_module._global_forward_hooks) > 1
        or len(of_module._global_forward_pre_hooks) > 1
    )


def _finish(steps: StepMarks, process: int) -> None:
    if SWITCH.is_alive() and os.getpid() == process:
        try:
            steps.finish()
        except Exception as error:
            SWITCH.fail(error)


def _stop_trace(trace: TorchTrace, process: int) -> None:
    if os.getpid() == process:
        try:
            trace.stop()
        except Exception as error:
            SWITCH.on = True
            SWITCH.fail(error)


def _is_data_worker() -> bool:
    """Return whether this process was spawned as a worker of a DataLoader."""
    return _FILE_WORKER in sys.modules and sys.modules[_FILE_WORKER].get_worker_info() is not None


def _after_fork() -> None:
    """Stay silent in a forked child: nsys records a child only from its exec on. A trace would grow
    there without an end.
    """
    SWITCH.turn_off()
    if isinstance(Ranges.domain, Annotations):
        sys.modules["torch"].autograd._enable_record_function(False)
