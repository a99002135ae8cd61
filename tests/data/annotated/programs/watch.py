"""What the programs share: the device, their losses and step times, and a reference by torch.profiler.

On exit each rank prints one line, `WATCH {json}`: losses as hex, milliseconds a step, and what
torch.compile counted. With REFERENCE=FOLDER the TRACED (4) steps from step 8 on run under
torch.profiler, with a record_function around the forward of each leaf: FOLDER/rank<N>.json holds
GPU time, and the number of kernels and copies, by leaf.
"""

import atexit
import json
import os
import sys
import time

import torch
import torch.distributed as dist

SMALL = bool(os.environ.get("SMALL"))
STEPS = int(os.environ.get("STEPS", "6" if SMALL else "30"))
CUDA = torch.cuda.is_available()
WARM, TRACED = (1, 2) if SMALL else (8, int(os.environ.get("TRACED", "4")))
_losses, _times = [], []
_profiler = None
if os.environ.get("DETERMINISTIC"):
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    for backend in ("flash", "mem_efficient", "cudnn"):  # their backward adds in any order
        getattr(torch.backends.cuda, f"enable_{backend}_sdp")(False)
torch.manual_seed(7)


def start():
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    if CUDA:
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if CUDA else torch.device("cpu")
    if "WORLD_SIZE" in os.environ and not dist.is_initialized():
        more = {"device_id": device} if CUDA else {}
        dist.init_process_group("nccl" if CUDA else "gloo", **more)
    return rank, int(os.environ.get("WORLD_SIZE", "1")), device


def autocast(device, dtype=torch.bfloat16):
    return torch.autocast(device.type, dtype=dtype)


def model(module):
    """Put record_function around each module's forward, if a reference is wanted."""
    if not os.environ.get("REFERENCE"):
        return module
    for name, each in module.named_modules():
        # What a block runs itself while checkpointing repeats it lies in the backward of its last leaf.
        text = f"{'inner' if list(each.children()) else 'leaf'}:{name}|{type(each).__name__}"
        each.register_forward_pre_hook(lambda m, a, text=text: _open(m, text))
        # always_call: checkpointing leaves the last forward that it repeats by an exception
        each.register_forward_hook(_close, always_call=True)
    return module


def _open(leaf, text):
    mark = torch.profiler.record_function(text)
    leaf.__dict__.setdefault("_ref", []).append(mark)
    mark.__enter__()


def _close(leaf, arguments, output):
    leaf.__dict__["_ref"].pop().__exit__(None, None, None)


def step(loss=None):
    """Call after each optimizer step."""
    global _profiler
    if loss is not None:
        _losses.append(loss.detach())
    _times.append(time.perf_counter())
    if len(_times) in (WARM, WARM + TRACED, STEPS) and CUDA:
        torch.cuda.synchronize()
        _times[-1] = time.perf_counter()
    if os.environ.get("REFERENCE"):
        if len(_times) == WARM:
            _profiler = torch.profiler.profile(record_shapes=False)
            _profiler.start()
        elif len(_times) == WARM + TRACED:
            _profiler.stop()
            _write(_profiler, os.environ["REFERENCE"])


def _write(profiler, folder):
    os.makedirs(folder, exist_ok=True)
    rank = os.environ.get("RANK", "0")
    trace = os.path.join(folder, f"trace{rank}.json")
    profiler.export_chrome_trace(trace)
    with open(trace) as file:
        facts = by_leaf(json.load(file)["traceEvents"])
    os.remove(trace)
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump({"steps": TRACED, **facts}, file, indent=1)


def by_leaf(events):
    """Sum GPU time by leaf from a Chrome trace: kernels by correlation, backward by sequence number.

    Times in microseconds, and counts of the same. A kernel belongs to the runtime call with its correlation id; the call
    lies inside operators of its thread. The backward's operator `autograd::engine::
    evaluate_function` has the sequence number of the forward's operator.
    """
    spans = [e for e in events if e.get("ph") == "X"]
    ops = {}
    calls = {}
    for e in spans:
        if e.get("cat") in ("cpu_op", "user_annotation"):
            ops.setdefault(e["tid"], []).append(e)
        elif e.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls[e["args"]["correlation"]] = e
    leaf_of = {}
    for tid, row in ops.items():
        row.sort(key=lambda e: (e["ts"], -e["dur"]))
        stack = []
        for e in row:
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]:
                stack.pop()
            e["_up"] = stack[-1] if stack else None
            stack.append(e)
            leaf = e["name"] if e["name"].startswith("leaf:") else None
            e["_leaf"] = leaf or (e["_up"] or {}).get("_leaf")
            sequence = e.get("args", {}).get("Sequence number")
            if e["_leaf"] and sequence is not None and sequence >= 0:
                leaf_of[(sequence, tid)] = e["_leaf"]
    main = max(ops, key=lambda tid: sum(1 for e in ops[tid] if e["name"].startswith("leaf:")))
    total, sums, counts = 0.0, {}, {}
    for e in spans:
        if e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        total += e["dur"]
        call = calls.get(e["args"].get("correlation"))
        op = _op_at(ops.get(call["tid"], []), call["ts"]) if call else None
        place, name = _owner(op, leaf_of, main)
        for facts, value in ((sums, e["dur"]), (counts, 1)):
            of_place = facts.setdefault(place, {})
            of_place[name] = of_place.get(name, 0) + value
    places = ("forward", "backward", "other")
    return {
        "total_us": total,
        **{f"{place}_us": sums.get(place, {}) for place in places},
        **{f"{place}_count": counts.get(place, {}) for place in places},
    }


def _op_at(row, moment):
    """Return the innermost operator of a thread that is open at a moment."""
    import bisect

    place = bisect.bisect_right(row, moment, key=lambda e: e["ts"]) - 1
    op = row[place] if place >= 0 else None
    while op is not None and op["ts"] + op["dur"] < moment:
        op = op["_up"]
    return op


def _owner(op, leaf_of, main):
    first = op["name"] if op else "no operator"
    while op is not None:
        if op.get("_leaf"):
            return "forward", op["_leaf"]
        if op["name"].startswith("inner:"):
            return "other", op["name"]
        if op["name"].startswith("autograd::engine::evaluate_function"):
            leaf = leaf_of.get((op.get("args", {}).get("Sequence number", -1), main))
            return ("backward", leaf) if leaf else ("other", op["name"][36:])
        first, op = op["name"], op["_up"]
    return "other", first


@atexit.register
def _tell():
    if not _times:
        return
    counters = {}
    if "torch._dynamo.utils" in sys.modules:
        counted = sys.modules["torch._dynamo.utils"].counters
        counters = {k: dict(v) for k, v in counted.items() if k in ("graph_break", "stats", "recompiles")}
        counters["graph_break"] = sum(counters.pop("graph_break", {}).values())
    between = [1e3 * (b - a) for a, b in zip(_times, _times[1:])]
    after = WARM + TRACED
    timed = len(_times) - after
    mean = 1e3 * (_times[-1] - _times[after - 1]) / timed if timed > 0 else 0.0
    facts = {
        "program": os.path.basename(sys.argv[0]),
        "rank": os.environ.get("RANK", "0"),
        "level": os.environ.get("GPU_PROFILE_ANNOTATE", "none"),
        "losses": [float(loss).hex() for loss in _losses],
        "mean_ms": round(mean, 4),
        "ms": [round(each, 3) for each in between],
        "counters": counters,
    }
    print("WATCH " + json.dumps(facts), flush=True)
