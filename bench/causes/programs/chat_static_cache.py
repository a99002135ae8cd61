"""A language model of Llama's kind that decodes with a KV cache of a fixed size; the cause launches it from Python.

The fix captures one token's work as a CUDA graph and replays it. A step is sixteen tokens of a
stream, which go to the client together.
"""
# causes: host_bound, tiny_kernels
import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns

BATCH = 8
MAX_LEN = 512
PROMPT = 128
CHUNK = 16
DIM, N_HEADS, N_LAYERS, FFN, VOCAB = 1024, 16, 16, 2816, 32000


class KVCache(nn.Module):
    """Keys and values of all places."""

    def __init__(self):
        super().__init__()
        shape = (BATCH, N_HEADS, MAX_LEN, DIM // N_HEADS)
        self.register_buffer("k", torch.randn(shape))
        self.register_buffer("v", torch.randn(shape))

    def update(self, pos, k, v):
        self.k.index_copy_(2, pos, k)
        self.v.index_copy_(2, pos, v)
        return self.k, self.v


class Attention(nn.Module):
    """The new word's attention to all words in the cache."""

    def __init__(self):
        super().__init__()
        self.wqkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        self.cache = KVCache()

    def forward(self, x, pos, mask, cos, sin):
        q, k, v = self.wqkv(x).view(BATCH, 1, 3, N_HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = self.cache.update(pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(BATCH, 1, DIM))


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Layer(nn.Module):
    """Attention and a gated MLP."""

    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.w1 = nn.Linear(DIM, FFN, bias=False)
        self.w2 = nn.Linear(FFN, DIM, bias=False)
        self.w3 = nn.Linear(DIM, FFN, bias=False)

    def forward(self, x, *place):
        x = x + self.attention(self.attention_norm(x), *place)
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Transformer(nn.Module):
    """The last words and their place to the scores of the next ones."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList([Layer() for _ in range(N_LAYERS)])
        self.norm = nn.RMSNorm(DIM)
        self.output = nn.Linear(DIM, VOCAB, bias=False)
        half = DIM // N_HEADS // 2
        angles = torch.outer(torch.arange(MAX_LEN), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("places", torch.arange(MAX_LEN))

    def forward(self, tokens, pos):
        mask = (self.places <= pos)[None, None, None]
        cos, sin = self.cos[pos], self.sin[pos]
        x = self.tok_embeddings(tokens)[:, None]
        for layer in self.layers:
            x = layer(x, pos, mask, cos, sin)
        return self.output(self.norm(x))[:, 0]


class Generator:
    """The model with its state: the last words, and where the next ones go."""

    def __init__(self):
        self.model = Transformer().to("cuda", torch.bfloat16).eval()
        self.tokens = torch.randint(VOCAB, (BATCH,), device="cuda")
        self.pos = torch.full((1,), PROMPT, device="cuda")
        self.graph = None

    def decode_one_token(self):
        logits = self.model(self.tokens, self.pos)
        self.tokens.copy_(logits.argmax(-1))
        self.pos.add_(1)

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.decode_one_token()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.decode_one_token()

    def replay_one_token(self):
        if self.graph is None:
            self.capture()
        self.graph.replay()

    def generate_chunk(self, with_graph):
        self.pos.fill_(PROMPT)
        chunk = []
        for _ in range(CHUNK):
            if with_graph:
                self.replay_one_token()
            else:
                self.decode_one_token()
            chunk.append(self.tokens.clone())
        return torch.stack(chunk, dim=1).tolist()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    generator = Generator()
    while turns.step():
        chunk = generator.generate_chunk(with_graph=not turns.planted)
    print(len(chunk), len(chunk[0]))
