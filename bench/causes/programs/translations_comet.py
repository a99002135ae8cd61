"""Translations judged by a COMET (XLM-R of transformers); the cause is its fp32 without TF32.

The fix allows TF32 in matrix products.
"""

# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import XLMRobertaConfig, XLMRobertaModel
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, PAD = 40, 96, 12, 768, 20000, 1


class Comet(nn.Module):
    """How good a translation is, by its source and a reference."""

    def __init__(self) -> None:
        super().__init__()
        config = XLMRobertaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
            intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH + 8, type_vocab_size=1,
            pad_token_id=PAD,
        )  # fmt: skip
        self.encoder = XLMRobertaModel(config, add_pooling_layer=False)
        self.mixture = nn.Parameter(torch.zeros(LAYERS + 1))
        self.judge = nn.Sequential(
            nn.Linear(6 * WIDTH, 3072), nn.Tanh(), nn.Linear(3072, 1024), nn.Tanh(),
            nn.Linear(1024, 1),
        )  # fmt: skip

    def embed(self, words: torch.Tensor) -> torch.Tensor:
        """The mean over words of a mixture of all layers."""
        known = (words != PAD).long()
        layers = self.encoder(
            input_ids=words, attention_mask=known, output_hidden_states=True
        ).hidden_states
        mixed = torch.tensordot(self.mixture.softmax(0), torch.stack(layers), dims=1)
        weights = known[:, :, None].float()
        return (mixed * weights).sum(1) / weights.sum(1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        source, translation, reference = self.embed(words.flatten(0, 1)).view(3, -1, WIDTH)
        pair = [translation, reference]
        pair += [translation * reference, (translation - reference).abs()]
        pair += [translation * source, (translation - source).abs()]
        return self.judge(torch.cat(pair, -1))[:, 0]


def draw_texts() -> torch.Tensor:
    """Sources, translations and references of 48 to 96 words, padded."""
    words = torch.randint(4, WORDS, (3, BATCH, LENGTH))
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (3, BATCH, 1))
    return words.masked_fill(torch.arange(LENGTH) >= lengths, PAD).to(DEVICE)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Comet().to(DEVICE).eval()
    texts = draw_texts()
    total = torch.zeros((), device=DEVICE)
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        total += model(texts).mean()
