"""Speakers told by a wav2vec 2.0 of torchaudio; a fifth of rank 1's sounds are of 44.1 kHz.

The cause resamples that by SciPy in the loop, while rank 0 has nothing to do. The fix has done it
once, before the training.
"""
# causes: straggler, idle

import numpy as np
import torch
import torchaudio
from parts import DEVICE, RANK, update, use_ranks
from scipy.signal import resample_poly
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, HIGH, LAYERS, SPEAKERS, SECONDS, CLIPS = 24, 5, 8, 500, 2, 64
RATE, RECORDED_RATE, COMMON = 16_000, 44_100, 100


def resample(clips: np.ndarray) -> np.ndarray:
    """Clips of 44.1 kHz at 16 kHz, each as loud as the others."""
    clips = resample_poly(clips, RATE // COMMON, RECORDED_RATE // COMMON, axis=1)
    return (clips / np.abs(clips).max(axis=1, keepdims=True)).astype(np.float32)


def make_model() -> nn.Module:
    """The base model of wav2vec 2.0 with fewer layers; its output is a score of each speaker."""
    model = torchaudio.models.wav2vec2_model(
        extractor_mode="group_norm", extractor_conv_layer_config=None, extractor_conv_bias=False,
        encoder_embed_dim=768, encoder_projection_dropout=0.1, encoder_pos_conv_kernel=128,
        encoder_pos_conv_groups=16, encoder_num_layers=LAYERS, encoder_num_heads=12,
        encoder_attention_dropout=0.1, encoder_ff_interm_features=3072,
        encoder_ff_interm_dropout=0.1, encoder_dropout=0.1, encoder_layer_norm_first=False,
        encoder_layer_drop=0.0, aux_num_out=SPEAKERS,
    )  # fmt: skip
    return model.to(DEVICE)


def run(turns: Turns) -> None:
    use_ranks(turns)
    random = np.random.default_rng(RANK)
    recorded = random.standard_normal((CLIPS, SECONDS * RECORDED_RATE), np.float32)
    ready = resample(recorded)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    speakers = torch.randint(SPEAKERS, (BATCH,), device=DEVICE)
    while turns.step():
        chosen = random.integers(CLIPS, size=BATCH)
        sounds = ready[chosen]
        if turns.planted and RANK == 1:
            sounds[:HIGH] = resample(recorded[chosen[:HIGH]])
        waves = torch.from_numpy(sounds).pin_memory().to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(waves)[0].mean(1)
        update(optimizer, nn.functional.cross_entropy(scores.float(), speakers))
