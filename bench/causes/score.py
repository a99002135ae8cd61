"""Score predicted gains against measured ones: python bench/causes/score.py FOLDER...

Each FOLDER is one of record.sh, with NAME/turns.json and NAME/planted.sqlite (or .gz), or such a
NAME. Prints a table in Markdown. A prediction is right if it names the cause and its gain is
within 10 % of the step and 25 % of the measured gain. A second table has the findings in
NAME/fixed.sqlite: nobody planted a cause there. The measured step is the control of a recording;
`--no-control` scores the recordings alone.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpu_profile.analysis.findings.diagnose import judge_run  # noqa: E402 - the package of this checkout
from gpu_profile.analysis.findings.diagnosed_report import (  # noqa: E402
    DiagnosedReport,
    collect_report_facts,
    replay_parts,
)
from gpu_profile.analysis.findings.diagnosis import Diagnosis  # noqa: E402
from gpu_profile.analysis.findings.finding import Finding  # noqa: E402
from gpu_profile.analysis.findings.table import RULES  # noqa: E402
from gpu_profile.analysis.replay.changes import combine  # noqa: E402
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow  # noqa: E402
from gpu_profile.analysis.store.database import Database  # noqa: E402
from gpu_profile.analysis.tables.analysis import Scope  # noqa: E402

CAUSES = {
    "adam_by_hand": ("unfused_elementwise",),
    "ads_hash": ("idle",),
    "anomaly_mode": ("synchronization", "host_bound"),
    "arcade_frames": ("many_small_copies", "synchronization", "host_bound"),
    "asian_malloc": ("allocation",),
    "assay_masks": ("synchronization", "tiny_kernels", "host_bound"),
    "asset_networks": ("tiny_kernels", "host_bound"),
    "audio_clip_norm": ("synchronization",),
    "augment_colours": ("unfused_elementwise",),
    "beam_search": ("idle", "synchronization"),
    "benchmark_sizes": ("compile", "idle"),
    "bert_collate": ("idle",),
    "bfs_frontier": ("idle", "pageable_copy"),
    "binomial_tree": ("tiny_kernels", "host_bound"),
    "birds_augment": ("tiny_kernels", "host_bound"),
    "byte_pairs": ("idle", "host_bound"),
    "cell_starts": ("idle", "pageable_copy"),
    "cells_hdf5": ("idle",),
    "cg_scalars": ("synchronization",),
    "checkpoint_sync": ("idle", "pageable_copy"),
    "class_accuracy": ("synchronization",),
    "click_lists": ("idle",),
    "codebook_fp32": ("no_tensor_cores",),
    "column_batches": ("many_small_copies", "synchronization"),
    "columns_2d": ("low_bandwidth",),
    "compile_guards": ("synchronization", "host_bound"),
    "compile_phase": ("compile",),
    "convnext_empty_cache": ("allocation",),
    "criteo_lines": ("idle",),
    "ct_textures": ("allocation",),
    "ctc_by_hand": ("tiny_kernels", "host_bound"),
    "cupy_alloy": ("idle",),
    "cupy_brightness": ("unfused_elementwise",),
    "cupy_channels": ("unused_gpu",),
    "cupy_correlator": ("pageable_copy",),
    "cupy_fft_plans": ("idle", "host_bound"),
    "cupy_formula": ("compile",),
    "cupy_grains": ("tiny_kernels", "host_bound"),
    "cupy_heston": ("tiny_kernels", "host_bound"),
    "cupy_host_random": ("idle", "pageable_copy"),
    "cupy_lanczos": ("synchronization",),
    "cupy_lattice": ("pageable_copy", "idle"),
    "cupy_lines": ("tiny_kernels", "host_bound"),
    "cupy_neurons": ("host_bound", "tiny_kernels"),
    "cupy_no_pool": ("allocation",),
    "cupy_particle_filter": ("idle", "pageable_copy"),
    "cupy_spectral": ("allocation",),
    "cupy_stars": ("idle", "pageable_copy"),
    "cupy_stencil": ("synchronization",),
    "cupy_unwrap": ("idle", "pageable_copy"),
    "cupy_waves": ("unfused_elementwise",),
    "cutmix_cpu": ("idle", "pageable_copy"),
    "dcn_fp32": ("no_tensor_cores",),
    "ddim_threshold": ("idle", "pageable_copy"),
    "decode_eager": ("host_bound", "tiny_kernels"),
    "decode_graph_cache": ("capture", "graph_miss", "idle"),
    "decode_python": ("idle",),
    "denoise_sizes": ("compile", "idle"),
    "depth_fusion": ("many_small_copies", "synchronization", "host_bound"),
    "depth_requests": ("allocation",),
    "detection_nms": ("idle",),
    "detr_asserts": ("synchronization",),
    "device_sync": ("synchronization",),
    "diffusion_noise": ("idle", "pageable_copy"),
    "diffusion_sigma": ("synchronization",),
    "distil_logits": ("pageable_copy",),
    "distil_teacher": ("no_tensor_cores",),
    "dit_group_offload": ("exposed_copy",),
    "dit_upcast": ("no_tensor_cores",),
    "dlrm_tables": ("tiny_kernels", "host_bound"),
    "dpo_reference": ("pageable_copy",),
    "elastic_scans": ("idle",),
    "ema_loop": ("tiny_kernels", "host_bound"),
    "ema_on_cpu": ("idle", "pageable_copy"),
    "embed_json": ("idle",),
    "face_crops": ("synchronization",),
    "faces_margin": ("no_tensor_cores",),
    "fastspeech_repeat": ("synchronization",),
    "fcn_eager": ("host_bound", "tiny_kernels"),
    "fields_one_stream": ("exposed_copy",),
    "flax_ema": ("tiny_kernels", "host_bound"),
    "flow_pairs": ("idle", "synchronization"),
    "focal_loss": ("unfused_elementwise",),
    "forecast_fp32": ("no_tensor_cores",),
    "frames_register": ("allocation",),
    "fsdp_offload": ("pageable_copy",),
    "gae_loop": ("tiny_kernels", "host_bound"),
    "gat_eager": ("host_bound", "tiny_kernels"),
    "gc_pauses": ("idle",),
    "gelu_by_hand": ("unfused_elementwise",),
    "generate_ngrams": ("idle", "synchronization"),
    "gnn_degree": ("idle", "pageable_copy"),
    "gnn_sampling": ("idle",),
    "gps_dense_batch": ("synchronization",),
    "gpt_adam_loop": ("tiny_kernels", "host_bound"),
    "gpt_fp32": ("no_tensor_cores",),
    "gpt_scores": ("unfused_attention",),
    "grad_stats": ("tiny_kernels", "host_bound"),
    "grammar_masks": ("idle", "synchronization"),
    "graph_rebuild": ("idle", "host_bound"),
    "gru_sessions": ("tiny_kernels", "host_bound"),
    "guidance_twice": ("host_bound", "tiny_kernels"),
    "hand_timers": ("synchronization",),
    "heads_decode": ("unused_gpu",),
    "histogram_tenth": ("idle", "pageable_copy"),
    "hmm_triton": ("tiny_kernels", "host_bound"),
    "hrnet_meters": ("synchronization",),
    "instance_updates": ("many_small_copies", "synchronization"),
    "jax_augment": ("tiny_kernels", "host_bound"),
    "jax_callback": ("idle",),
    "jax_catalogue": ("idle", "pageable_copy", "exposed_copy"),
    "jax_checkpoint": ("idle", "pageable_copy"),
    "jax_decode_stop": ("host_bound", "synchronization", "idle"),
    "jax_eager_draw": ("host_bound", "tiny_kernels"),
    "jax_fetch": ("idle", "pageable_copy"),
    "jax_frame_times": ("synchronization", "idle"),
    "jax_graph_sizes": ("compile",),
    "jax_jit_loop": ("compile",),
    "jax_lambda": ("compile",),
    "jax_layer_norms": ("synchronization", "idle", "host_bound"),
    "jax_lenses": ("unfused_elementwise",),
    "jax_log_loss": ("synchronization", "idle"),
    "jax_mcmc": ("synchronization", "idle"),
    "jax_minibatches": ("host_bound", "tiny_kernels"),
    "jax_percentiles": ("idle", "pageable_copy"),
    "jax_point_clouds": ("idle",),
    "jax_precision": ("no_tensor_cores",),
    "jax_retrace": ("compile",),
    "jax_rollout": ("tiny_kernels", "host_bound"),
    "jax_schedule": ("compile",),
    "jax_seismic": ("idle",),
    "jax_static_rate": ("compile",),
    "jax_update": ("tiny_kernels", "host_bound"),
    "jpeg_folder": ("idle",),
    "kalman_cholesky": ("synchronization",),
    "kg_ranks": ("synchronization", "host_bound"),
    "latent_cross": ("unfused_attention",),
    "latent_ode": ("host_bound", "tiny_kernels"),
    "latents_empty_cache": ("allocation",),
    "ligand_streams": ("allocation",),
    "lightning_bands": ("idle", "pageable_copy"),
    "lightning_char_errors": ("idle", "synchronization"),
    "lightning_collect": ("idle", "allocation"),
    "lightning_fp32": ("no_tensor_cores",),
    "lightning_histograms": ("idle", "pageable_copy"),
    "lightning_iou": ("synchronization",),
    "lightning_log_classes": ("host_bound", "idle"),
    "lightning_metric": ("idle", "synchronization"),
    "lightning_norms": ("synchronization",),
    "lightning_pit": ("tiny_kernels", "host_bound"),
    "lightning_previews": ("idle",),
    "lightning_repeats": ("idle", "synchronization"),
    "lightning_rooms": ("idle",),
    "lightning_sounds": ("no_tensor_cores",),
    "lion_loop": ("tiny_kernels", "host_bound"),
    "llama_offload": ("pageable_copy",),
    "llama_rotary": ("unfused_elementwise",),
    "lora_activations": ("synchronization", "host_bound"),
    "lora_requests": ("tiny_kernels", "host_bound"),
    "lstm_cells": ("host_bound", "tiny_kernels"),
    "malloc_loop": ("allocation",),
    "mamba_scan": ("tiny_kernels", "host_bound"),
    "md_neighbours": ("idle", "pageable_copy"),
    "mesh_fp32": ("no_tensor_cores",),
    "metrics_fifth": ("idle",),
    "mish_by_hand": ("unfused_elementwise",),
    "mlm_tokenize": ("idle",),
    "mmoe_experts": ("tiny_kernels", "host_bound"),
    "moco_queue": ("pageable_copy",),
    "moe_loop": ("synchronization",),
    "molecule_batches": ("idle",),
    "multigrid_eager": ("host_bound", "tiny_kernels"),
    "multvae_fp32": ("no_tensor_cores",),
    "muon_matrices": ("tiny_kernels", "host_bound"),
    "nan_check": ("synchronization", "host_bound"),
    "nbody_energy": ("idle", "pageable_copy"),
    "ner_entities": ("idle", "synchronization"),
    "nerf_rays": ("idle",),
    "offload_adam": ("idle", "pageable_copy"),
    "onehot_masks": ("exposed_copy",),
    "option_prices": ("unfused_elementwise",),
    "organ_dice": ("synchronization",),
    "organ_windows": ("allocation",),
    "packed_documents": ("tiny_kernels", "host_bound"),
    "pair_attention": ("unfused_attention",),
    "pets_masks": ("idle",),
    "photos_siglip": ("unfused_attention",),
    "pinn_eager": ("host_bound", "tiny_kernels"),
    "plates_pageable": ("pageable_copy",),
    "points_per_scene": ("host_bound", "tiny_kernels"),
    "policy_denoise": ("host_bound", "tiny_kernels"),
    "pool_threshold": ("allocation",),
    "prefetch_stream": ("synchronization",),
    "priority_tree": ("idle", "synchronization"),
    "progress_bar": ("synchronization",),
    "protein_walks": ("idle",),
    "radar_streams": ("pageable_copy",),
    "reads_one_stream": ("unused_gpu",),
    "recommender": ("idle", "pageable_copy"),
    "recompile": ("compile",),
    "recompile_lengths": ("compile",),
    "replay_buffer": ("idle", "pageable_copy"),
    "rerank_pairs": ("tiny_kernels", "host_bound"),
    "resnet_item": ("synchronization",),
    "retrieval_fp32": ("no_tensor_cores",),
    "reward_fp32": ("no_tensor_cores",),
    "rl_actions": ("synchronization",),
    "rl_envs": ("idle",),
    "robot_resets": ("synchronization",),
    "rpn_sampler": ("synchronization", "tiny_kernels"),
    "sampler_requests": ("tiny_kernels", "host_bound"),
    "sasrec_negatives": ("idle",),
    "schnet_md": ("host_bound", "tiny_kernels"),
    "scores_upcast": ("no_tensor_cores",),
    "segment_export": ("pageable_copy",),
    "server_window": ("idle",),
    "shock_cfl": ("synchronization",),
    "sinkhorn_check": ("synchronization",),
    "slide_tiles": ("synchronization",),
    "small_copies": ("synchronization", "host_bound"),
    "speculative_accept": ("synchronization", "idle"),
    "speech_features": ("idle", "pageable_copy"),
    "speech_masks": ("synchronization",),
    "stems_pageable": ("pageable_copy",),
    "stereo_pageable": ("pageable_copy",),
    "stop_words": ("synchronization", "host_bound"),
    "superres_fp32": ("no_tensor_cores",),
    "swiglu_clamped": ("unfused_elementwise",),
    "tabular_loader": ("idle",),
    "thread_tokens": ("idle", "host_bound"),
    "thrust_sort": ("allocation",),
    "thrust_vectors": ("allocation",),
    "tiles_properties": ("idle", "host_bound"),
    "timm_agc": ("tiny_kernels", "host_bound"),
    "timm_eager": ("host_bound", "tiny_kernels"),
    "traces_norm": ("unused_gpu",),
    "tracks_sizes": ("synchronization",),
    "trainer_accuracy": ("pageable_copy", "idle"),
    "trainer_adafactor": ("tiny_kernels", "host_bound", "synchronization"),
    "trainer_checkpoint": ("idle", "pageable_copy"),
    "trainer_clean_text": ("idle",),
    "trainer_collate": ("idle",),
    "trainer_empty_cache": ("allocation",),
    "trainer_lists": ("idle",),
    "trainer_log": ("idle",),
    "trainer_padding": (),
    "trainer_pil": ("idle",),
    "trainer_videos": ("pageable_copy",),
    "trainer_whisper": ("no_tensor_cores",),
    "triangle_fp32": ("no_tensor_cores",),
    "triton_autotune": ("compile",),
    "triton_lengths": ("compile",),
    "two_services": ("synchronization",),
    "two_tower_fp32": ("no_tensor_cores",),
    "unet_eager": ("host_bound", "tiny_kernels"),
    "unet_pageable": ("pageable_copy",),
    "video_frames": ("idle", "pageable_copy"),
    "vit_loader": ("idle",),
    "vocoder_gan": ("synchronization",),
    "vocoder_snake": ("unfused_elementwise",),
    "voices_phase": ("unused_gpu",),
    "volumes_npz": ("idle",),
    "wave_snapshots": ("pageable_copy",),
    "windows_stack": ("idle", "host_bound"),
    "words_numpy": ("idle", "pageable_copy"),
    "workers_restart": ("idle",),
    "zones_launches": ("tiny_kernels", "host_bound"),
}
"""The kinds of findings that name the cause of a program; none where no kind does."""
STEP_ERROR, GAIN_ERROR = 0.10, 0.25
MADE_STEPS = 48
"""Of a recorded run: the warm-up and the timed ones of turns.py."""


@dataclass(frozen=True)
class Score:
    """Times in ms a step. `gain` is measured, `spread` its least and most by pairs of blocks."""

    name: str
    step: float
    gain: float
    spread: tuple[float, float]
    predicted: float | None
    first: str

    @property
    def is_right(self) -> bool:
        if self.predicted is None:
            return False
        error = abs(self.predicted - self.gain)
        named = self.first.split(",")[0] in CAUSES[self.name]
        return named and error <= STEP_ERROR * self.step and error <= GAIN_ERROR * self.gain

    @property
    def is_host_bound(self) -> bool:
        """Whether its author expected launches to be the limit. Such programs are scored apart."""
        return "host_bound" in CAUSES[self.name]

    def to_row(self) -> str:
        predicted = "none" if self.predicted is None else f"{self.predicted:.2f}"
        low, high = self.spread
        return (
            f"| {self.name} | {self.step:.2f} | {self.gain:.2f} ({low:.2f} to {high:.2f}) | "
            f"{predicted} | {self.first} | {'yes' if self.is_right else 'no'} |"
        )


def score(folder: Path, *, has_control: bool = True) -> Score:
    """Score the recording in NAME/, with the measured step as control or without one."""
    turns = json.loads((folder / "turns.json").read_text())
    planted, fixed = turns["planted"], turns["fixed"]
    gains = [before - after for before, after in zip(planted, fixed, strict=True)]
    step = statistics.median(planted)
    facts = _read_facts(folder, "planted")
    # Where a part of the program's step repeats, it is what is found as the step.
    parts = max(1, round(_count_steps(judge_run([facts])) / MADE_STEPS))
    control_ms = step / parts if has_control else 0.0
    diagnosis = judge_run([facts], control_ms=control_ms)
    gain = step - statistics.median(fixed)
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in diagnosis.findings)) or "nothing"
    predicted = _predict(facts, diagnosis, CAUSES[folder.name], control_ms)
    predicted = None if predicted is None else parts * predicted
    return Score(folder.name, step, gain, (min(gains), max(gains)), predicted, kinds)


def list_healthy(folder: Path, *, has_control: bool = True) -> str:
    """The row of the findings in a recording with the fix."""
    step = statistics.median(json.loads((folder / "turns.json").read_text())["fixed"])
    facts = _read_facts(folder, "fixed")
    parts = max(1, round(_count_steps(judge_run([facts])) / MADE_STEPS))
    findings = judge_run([facts], control_ms=step / parts if has_control else 0.0).findings
    found = ", ".join(f"{each.kind} {each.cost_ms * parts:.2f}" for each in findings)
    return f"| {folder.name} | {step:.2f} | {found or 'nothing'} |"


def _read_facts(folder: Path, mode: str) -> DiagnosedReport:
    with Database.open(next(folder.glob(f"{mode}.sqlite*"))) as database:
        return collect_report_facts(database, Scope())


def _count_steps(diagnosis: Diagnosis) -> int:
    step = diagnosis.overview.step
    return step.count + step.left_out if step else 0


def _predict(
    facts: DiagnosedReport, diagnosis: Diagnosis, kinds: Sequence[str], control_ms: float
) -> float | None:
    """The gain of a program's fix, which takes away all causes of these kinds that were found.

    Of bounds only the first finding counts: a fix of a pause leaves the launches, and one of a loop
    of tiny kernels leaves those of the rest.
    """
    found = [finding for finding in diagnosis.findings if finding.kind in kinds]
    causes = [*found[:1], *(cause for cause in found[1:] if not _is_bound(cause))]
    edits = [RULES[cause.kind].edit(cause) for cause in causes]
    replay = replay_parts([facts])
    known = [edit.apply for edit in edits if edit]
    shadow = None if isinstance(replay, str) else find_shadow(replay, control_ms)
    if len(known) < 2 or isinstance(replay, str) or shadow is None:
        return max((cause.cost_ms for cause in causes), default=None)
    change = combine(known)
    return shadow.step_ms - replay.predict_step(change(replay.graph, shadow.weights))


def _is_bound(finding: Finding) -> bool:
    change = RULES[finding.kind].edit(finding)
    return change is not None and change.is_bound


def list_folders(words: Sequence[str], mode: str = "planted") -> Iterator[Path]:
    """These folders of recordings, and those below them."""
    for word in words:
        found = (*Path(word).glob(f"{mode}.sqlite*"), *Path(word).glob(f"*/{mode}.sqlite*"))
        folders = (path.parent.resolve() for path in found)
        yield from sorted(folder for folder in folders if folder.name in CAUSES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--no-control", action="store_false", dest="has_control")
    words = parser.parse_args()
    folders, has_control = words.folders, words.has_control
    scores = [score(folder, has_control=has_control) for folder in list_folders(folders)]
    print("| program | step | measured gain | predicted | findings | right |")
    print("|---|---|---|---|---|---|")
    print(*(score.to_row() for score in scores), sep="\n")
    for kind in ("host-bound", "other"):
        group = [
            score.is_right for score in scores if score.is_host_bound == (kind == "host-bound")
        ]
        if group:
            print(f"\n{kind}: {sum(group)} of {len(group)} right")
    fixed = [list_healthy(each, has_control=has_control) for each in list_folders(folders, "fixed")]
    if fixed:
        print("\n| fixed program | step | findings |", "|---|---|---|", *fixed, sep="\n")


if __name__ == "__main__":
    main()
