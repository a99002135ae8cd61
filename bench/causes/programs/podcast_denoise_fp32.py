"""Noise taken off podcasts by attention over time and over frequencies; the cause is fp32 products without TF32.

That is PyTorch's default. The fix is `torch.set_float32_matmul_precision("high")`.
"""
# causes: no_tensor_cores
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

CLIPS, SAMPLES, WINDOW, HOP = 6, 65_536, 512, 256
WIDTH, HEADS, LAYERS = 128, 4, 4
STORED_BATCHES = 4


class AttentionLayer(nn.Module):
    """Attention within sequences, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.expand = nn.Linear(WIDTH, 4 * WIDTH)
        self.contract = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sequences, length, _ = x.shape
        qkv = self.to_qkv(self.norm1(x)).view(sequences, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.to_out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class Denoiser(nn.Module):
    """Noisy spectra to a complex mask for each time and frequency."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(2, WIDTH)
        self.over_bands = nn.ModuleList([AttentionLayer() for _ in range(LAYERS)])
        self.over_times = nn.ModuleList([AttentionLayer() for _ in range(LAYERS)])
        self.decode = nn.Linear(WIDTH, 2)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        clips, bands, times = spectra.shape
        x = self.encode(torch.view_as_real(spectra)).transpose(1, 2)
        for over_bands, over_times in zip(self.over_bands, self.over_times, strict=True):
            x = over_bands(x.reshape(clips * times, bands, WIDTH))
            x = x.view(clips, times, bands, WIDTH).transpose(1, 2)
            x = over_times(x.reshape(clips * bands, times, WIDTH))
            x = x.view(clips, bands, times, WIDTH).transpose(1, 2)
        mask = torch.tanh(self.decode(x.transpose(1, 2)))
        return spectra * torch.view_as_complex(mask.contiguous())


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE).eval()
    window = torch.hann_window(WINDOW, device=DEVICE)
    recordings = torch.randn(STORED_BATCHES, CLIPS, SAMPLES).pin_memory()
    step, clean = 0, torch.empty(CLIPS, SAMPLES, pin_memory=True)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        noisy = recordings[step % STORED_BATCHES].to(DEVICE, non_blocking=True)
        step += 1
        spectra = torch.stft(noisy, WINDOW, HOP, window=window, return_complex=True)
        sound = torch.istft(model(spectra), WINDOW, HOP, window=window, length=SAMPLES)
        clean.copy_(sound, non_blocking=True)
        torch.cuda.current_stream().synchronize()
