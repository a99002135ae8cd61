"""Short answers of a Qwen2 (transformers) to long prompts by an own greedy loop; the cause keeps no keys and values.

With the cause each new token reads the whole text again. The fix passes the cache of the keys and
values on, so that only the new token is read.
"""

# causes: none
import torch
from parts import DEVICE, draw_tokens, use_gpu
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM
from turns import Turns

BATCH, PROMPT, ANSWER, LAYERS, WIDTH, WORDS = 24, 512, 8, 6, 1536, 16384


def make_model() -> nn.Module:
    config = Qwen2Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=4096, num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 128, num_key_value_heads=4, max_position_embeddings=1024,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval().to(DEVICE, torch.bfloat16)


def choose_word(logits: torch.Tensor) -> torch.Tensor:
    return logits[:, -1].argmax(1, keepdim=True)


def answer_anew(model: nn.Module, prompt: torch.Tensor) -> torch.Tensor:
    """The words after the prompt; each is found from the whole text."""
    text = prompt
    for _ in range(ANSWER):
        found = model(input_ids=text, use_cache=False, logits_to_keep=1)
        text = torch.cat([text, choose_word(found.logits)], 1)
    return text[:, PROMPT:]


def answer_from_cache(model: nn.Module, prompt: torch.Tensor) -> torch.Tensor:
    """As answer_anew."""
    found = model(input_ids=prompt, use_cache=True, logits_to_keep=1)
    words = [choose_word(found.logits)]
    for _ in range(ANSWER - 1):
        found = model(
            input_ids=words[-1],
            past_key_values=found.past_key_values,
            use_cache=True,
            logits_to_keep=1,
        )
        words.append(choose_word(found.logits))
    return torch.cat(words, 1)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    prompts = [draw_tokens(BATCH, PROMPT, WORDS) for _ in range(4)]
    answered, answers = 0, []
    while turns.step():
        answer = answer_anew if turns.planted else answer_from_cache
        answers = answer(model, prompts[answered % len(prompts)]).tolist()
        answered += len(answers) // BATCH
