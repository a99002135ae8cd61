"""Generation by transformers; the cause compares each last word with each stop word in Python."""
# causes: synchronization, host_bound
import torch
from parts import DEVICE, use_gpu
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    StoppingCriteria,
    StoppingCriteriaList,
)
from turns import Turns

BATCH, PROMPT, NEW, WORDS = 16, 256, 6, 8192
# The model knows fewer words, so it never says one of these, and all calls make as many words.
STOPS = tuple(range(WORDS, WORDS + 8))


class StopOnWords(StoppingCriteria):
    """Ends a text behind a stop word."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.stops = turns, torch.tensor(STOPS, device=DEVICE)

    def __call__(self, input_ids, scores, **_):  # type: ignore[no-untyped-def]
        if not self.turns.planted:
            return torch.isin(input_ids[:, -1], self.stops)
        ended = []
        for text in input_ids:
            ended.append(False)
            for stop in STOPS:
                if text[-1] == stop:
                    ended[-1] = True
                    break
        return torch.tensor(ended, device=input_ids.device)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4,
        num_attention_heads=16, eos_token_id=0, bos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()
    prompt = torch.randint(1, WORDS, (BATCH, PROMPT), device=DEVICE)
    everywhere = torch.ones_like(prompt)
    criteria = StoppingCriteriaList([StopOnWords(turns)])
    while turns.step():
        model.generate(
            prompt, attention_mask=everywhere, max_new_tokens=NEW, min_new_tokens=NEW,
            do_sample=False, pad_token_id=0, stopping_criteria=criteria,
        )  # fmt: skip
