"""Speech recognition; the cause computes spectra of sound on the CPU before each step."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SAMPLES, BANDS, WIDTH, LAYERS = 64, 80_000, 80, 1024, 6


class Recognizer(nn.Module):
    """Two convolutions in time and an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(BANDS, WIDTH, 3, 2, 1), nn.GELU(), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.GELU()
        )
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 128)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.front(spectra).transpose(1, 2)))


def transform(sound: torch.Tensor, bands: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    """Log energies of bands, of shape (batch, bands, frames)."""
    spectra = torch.stft(sound, 400, 160, window=window, return_complex=True).abs().square()
    return (bands @ spectra + 1e-6).log()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Recognizer().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    parts = torch.randn(BATCH, SAMPLES), torch.rand(BANDS, 201), torch.hann_window(400)
    on_device = [part.to(DEVICE) for part in parts]
    while turns.step():
        spectra = transform(*(parts if turns.planted else on_device)).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(spectra)
        update(optimizer, scores.float().logsumexp(-1).mean())
