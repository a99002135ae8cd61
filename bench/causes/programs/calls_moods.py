"""Moods of callers told by a HuBERT (transformers); the cause prepares each batch by the model's feature extractor.

It makes fp32 of the sounds and scales each of them on the CPU. The fix copies the sounds as they
were recorded, in 16 bits, and scales them on the GPU.
"""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, use_gpu
from transformers import HubertConfig, HubertForSequenceClassification, Wav2Vec2FeatureExtractor
from turns import Turns

CALLS, SECONDS, RATE, MOODS, BATCHES = 24, 6, 16_000, 7, 6


def record_calls() -> list[list[np.ndarray]]:
    """Batches of parts of calls, each SECONDS long."""
    random = np.random.default_rng(0)
    sound = random.normal(0, 2000, (BATCHES, CALLS, SECONDS * RATE)).astype(np.int16)
    return [list(batch) for batch in sound]


def prepare_on_host(extractor: Wav2Vec2FeatureExtractor, calls: list[np.ndarray]) -> torch.Tensor:
    sounds = [call.astype(np.float32) / 32768 for call in calls]
    inputs = extractor(sounds, sampling_rate=RATE, padding=True, return_tensors="pt")
    return inputs["input_values"].to(DEVICE, torch.bfloat16)


def prepare_on_gpu(calls: list[np.ndarray]) -> torch.Tensor:
    """As prepare_on_host."""
    sounds = torch.from_numpy(np.stack(calls)).to(DEVICE).float() / 32768
    spread, mean = torch.var_mean(sounds, dim=1, keepdim=True, correction=0)
    return ((sounds - mean) / torch.sqrt(spread + 1e-7)).to(torch.bfloat16)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    config = HubertConfig(num_labels=MOODS, num_hidden_layers=12, classifier_proj_size=256)
    model = HubertForSequenceClassification(config).eval().to(DEVICE, torch.bfloat16)
    extractor = Wav2Vec2FeatureExtractor(
        feature_size=1, sampling_rate=RATE, padding_value=0.0, do_normalize=True
    )
    batches, told = record_calls(), []
    while turns.step():
        calls = batches[len(told) % BATCHES]
        sounds = prepare_on_host(extractor, calls) if turns.planted else prepare_on_gpu(calls)
        shares = model(input_values=sounds).logits.float().softmax(-1)
        told.append(shares.argmax(-1).tolist())
