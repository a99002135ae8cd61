"""An encoder-decoder of speech as Whisper, trained in bfloat16; the cause computes attention step by step.

`qk = q @ k`, a softmax in fp32 and `w @ v`, as Whisper's first publication has it. The fix is
`F.scaled_dot_product_attention`.
"""
# causes: unfused_attention
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns


@dataclass
class Dims:
    """The sizes of a model."""

    n_mels: int = 80
    n_audio_ctx: int = 1500
    n_text_ctx: int = 160
    n_state: int = 512
    n_head: int = 8
    n_layer: int = 4
    n_vocab: int = 8192


class MultiHeadAttention(nn.Module):
    """Attention of x to itself, or to what an encoder gave."""

    use_sdpa = True

    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def heads(self, x):
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, x, xa=None, mask=None):
        source = x if xa is None else xa
        q, k, v = self.heads(self.query(x)), self.heads(self.key(source)), self.heads(self.value(source))
        if MultiHeadAttention.use_sdpa:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)
        else:
            a = self.qkv_attention(q, k, v, mask)
        return self.out(a.transpose(1, 2).flatten(2))

    def qkv_attention(self, q, k, v, mask):
        scale = q.shape[-1] ** -0.25
        qk = (q * scale) @ (k * scale).transpose(-1, -2)
        if mask is not None:
            qk = qk + mask
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return w @ v


class ResidualAttentionBlock(nn.Module):
    """Attention, attention to the encoder in a decoder, and an MLP."""

    def __init__(self, n_state, n_head, cross=False):
        super().__init__()
        self.attn = MultiHeadAttention(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head) if cross else None
        self.cross_ln = nn.LayerNorm(n_state) if cross else None
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa=None, mask=None):
        x = x + self.attn(self.attn_ln(x), mask=mask)
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.cross_ln(x), xa)
        return x + self.mlp(self.mlp_ln(x))


class Whisper(nn.Module):
    """Spectra and the text so far to the next words."""

    def __init__(self, dims):
        super().__init__()
        s = dims.n_state
        self.conv1 = nn.Conv1d(dims.n_mels, s, 3, padding=1)
        self.conv2 = nn.Conv1d(s, s, 3, stride=2, padding=1)
        self.audio_pos = nn.Parameter(0.01 * torch.randn(dims.n_audio_ctx, s))
        self.encoder = nn.ModuleList([ResidualAttentionBlock(s, dims.n_head) for _ in range(dims.n_layer)])
        self.ln_post = nn.LayerNorm(s)
        self.token_embedding = nn.Embedding(dims.n_vocab, s)
        self.text_pos = nn.Parameter(0.01 * torch.randn(dims.n_text_ctx, s))
        self.decoder = nn.ModuleList(
            [ResidualAttentionBlock(s, dims.n_head, cross=True) for _ in range(dims.n_layer)]
        )
        self.ln = nn.LayerNorm(s)
        mask = torch.full((dims.n_text_ctx, dims.n_text_ctx), float("-inf")).triu_(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, mel, tokens):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2) + self.audio_pos
        for block in self.encoder:
            x = block(x)
        xa = self.ln_post(x)
        x = self.token_embedding(tokens) + self.text_pos
        for block in self.decoder:
            x = block(x, xa, self.mask)
        return self.ln(x) @ self.token_embedding.weight.T


def run(turns: Turns) -> None:
    use_gpu(turns)
    dims = Dims()
    model = Whisper(dims).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    mel = torch.randn(8, dims.n_mels, 2 * dims.n_audio_ctx, device="cuda")
    text = torch.randint(dims.n_vocab, (8, dims.n_text_ctx + 1), device="cuda")

    while turns.step():
        MultiHeadAttention.use_sdpa = not turns.planted
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(mel, text[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
