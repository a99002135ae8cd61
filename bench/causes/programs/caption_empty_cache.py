"""Captions of images: a frozen ViT (timm) and a decoder in training; the cause empties the cache between the two.

It was meant to leave room for the decoder. The fix leaves the allocator alone.
"""
# causes: allocation
import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns

BATCH, WORDS, VOCAB, DIM = 96, 48, 10_000, 768


class CaptionDecoder(nn.Module):
    """Words so far and features of an image to the scores of the next words."""

    def __init__(self, feature_dim, layers=6):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.positions = nn.Parameter(0.02 * torch.randn(WORDS, DIM))
        self.project = nn.Linear(feature_dim, DIM)
        layer = nn.TransformerDecoderLayer(
            DIM, nhead=12, dim_feedforward=4 * DIM, dropout=0.1, activation="gelu",
            batch_first=True, norm_first=True,
        )
        self.decoder = nn.TransformerDecoder(layer, layers, norm=nn.LayerNorm(DIM))
        self.head = nn.Linear(DIM, VOCAB)
        mask = nn.Transformer.generate_square_subsequent_mask(WORDS)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, words, features):
        x = self.embed(words) + self.positions
        x = self.decoder(x, self.project(features), tgt_mask=self.mask, tgt_is_causal=True)
        return self.head(x)


class Captioner:
    """One training step after the other."""

    def __init__(self):
        self.encoder = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=0)
        self.encoder = self.encoder.cuda().to(torch.bfloat16).eval().requires_grad_(False)
        self.decoder = CaptionDecoder(self.encoder.num_features).cuda().train()
        self.optimizer = torch.optim.AdamW(self.decoder.parameters(), lr=1e-4, fused=True)

    @torch.no_grad()
    def encode(self, images):
        return self.encoder.forward_features(images.to(torch.bfloat16))

    def training_step(self, images, captions, empty_cache):
        features = self.encode(images)
        if empty_cache:
            torch.cuda.empty_cache()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.decoder(captions[:, :-1], features)
        loss = F.cross_entropy(logits.float().flatten(0, 1), captions[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def run(turns: Turns) -> None:
    use_gpu(turns)
    captioner = Captioner()
    images = torch.randn(2, BATCH, 3, 224, 224, device="cuda")
    captions = torch.randint(VOCAB, (2, BATCH, WORDS + 1), device="cuda")
    total, step = torch.zeros((), device="cuda"), 0
    while turns.step():
        i = step % 2
        step += 1
        total += captioner.training_step(images[i], captions[i], empty_cache=turns.planted)
