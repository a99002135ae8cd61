"""Speech written down for subtitles by a wav2vec 2.0 (torchaudio); the cause is fp32 products without TF32.

Its convolutions have TF32, which cuDNN may use by default, the products of its transformer do not.
The fix is `torch.backends.cuda.matmul.allow_tf32`.
"""
# causes: no_tensor_cores
import torch
import torchaudio
from parts import DEVICE, use_gpu
from turns import Turns

CLIPS, SAMPLES, LETTERS, BATCHES, BLANK = 16, 160_000, 32, 4, 0


def collapse(scores: torch.Tensor) -> torch.Tensor:
    """The best letter of each time, blank where it is the one before."""
    best = scores.argmax(-1)
    is_new = torch.ones_like(best, dtype=torch.bool)
    is_new[:, 1:] = best[:, 1:] != best[:, :-1]
    return torch.where(is_new, best, BLANK)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchaudio.models.wav2vec2_base(aux_num_out=LETTERS).to(DEVICE).eval()
    batches = torch.randn(BATCHES, CLIPS, SAMPLES).pin_memory()
    steps, letters = 0, 0
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        waves = batches[steps % BATCHES].to(DEVICE, non_blocking=True)
        scores, _ = model(waves)
        letters += int((collapse(scores).cpu() != BLANK).sum())
        steps += 1
