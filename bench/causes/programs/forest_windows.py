"""Animals heard in a forest by a wav2vec 2.0 (transformers); the cause calls it window by window.

As a pipeline of transformers without `batch_size` does. The fix calls the model once for the
windows of two minutes.
"""

# causes: host_bound, unused_gpu
import torch
from parts import DEVICE, use_gpu
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification
from turns import Turns

WINDOWS, LENGTH, LAYERS, WIDTH, KINDS = 12, 160_000, 12, 768, 30


def make_model() -> Wav2Vec2ForSequenceClassification:
    config = Wav2Vec2Config(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, num_labels=KINDS,
    )  # fmt: skip
    return Wav2Vec2ForSequenceClassification(config).to(DEVICE, torch.bfloat16).eval()


def cut(sound: torch.Tensor) -> torch.Tensor:
    """The windows of a sound, each of mean zero and spread one."""
    windows = sound.view(WINDOWS, LENGTH)
    centered = windows - windows.mean(1, keepdim=True)
    return (centered / centered.std(1, keepdim=True)).to(torch.bfloat16)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    sounds = torch.randn(4, WINDOWS * LENGTH, device=DEVICE)
    heard = torch.zeros(KINDS, device=DEVICE)
    taken = 0
    while turns.step():
        windows = cut(sounds[taken % len(sounds)])
        parts = windows.split(1) if turns.planted else [windows]
        scores = torch.cat([model(input_values=part).logits for part in parts])
        heard += scores.float().sigmoid().sum(0)
        taken += 1
