"""A language model of code (GPT-NeoX of transformers) in training; the cause is `attn_implementation="eager"`.

The fix is "sdpa".
"""
# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, get_cosine_schedule_with_warmup
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, HEADS, WORDS, BATCHES = 3, 1536, 7, 768, 12, 8192, 16


class Trained:
    """A model with its optimizer and schedule."""

    def __init__(self, attention: str) -> None:
        config = GPTNeoXConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH, use_cache=False,
            attn_implementation=attention,
        )  # fmt: skip
        self.model = GPTNeoXForCausalLM(config).train().to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.schedule = get_cosine_schedule_with_warmup(self.optimizer, 100, 1_000_000)

    def learn(self, words: torch.Tensor) -> None:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = self.model(input_ids=words, labels=words).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    eager, fused = Trained("eager"), Trained("sdpa")
    fused.model.load_state_dict(eager.model.state_dict())
    texts = torch.randint(WORDS, (BATCHES, BATCH, LENGTH)).pin_memory()
    step = 0
    while turns.step():
        words = texts[step % BATCHES].to(DEVICE, non_blocking=True)
        step += 1
        (eager if turns.planted else fused).learn(words)
