"""Answers of a language model scored for reinforcement learning (transformers); the cause is a reward model in fp32.

The policy and the reference are in bfloat16, and so is the reward model with the fix.
"""
# causes: no_tensor_cores
import copy

import torch
from parts import DEVICE, use_gpu
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification
from turns import Turns

ANSWERS, LENGTH, WORDS = 12, 512, 16_384
POLICY = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 10,
    "num_attention_heads": 16, "num_key_value_heads": 16,
}  # fmt: skip
REWARD = {
    "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 10,
    "num_attention_heads": 12, "num_key_value_heads": 12,
}  # fmt: skip


def measure_words(model: LlamaForCausalLM, answers: torch.Tensor) -> torch.Tensor:
    """The logarithm of the probability of each word behind the first."""
    logits = model(input_ids=answers, use_cache=False).logits[:, :-1]
    chosen = logits.gather(2, answers[:, 1:, None]).squeeze(2)
    return chosen.float() - logits.logsumexp(2).float()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    with torch.device(DEVICE):
        policy = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, **POLICY)).bfloat16().eval()
        config = LlamaConfig(vocab_size=WORDS, num_labels=1, pad_token_id=0, **REWARD)
        slow = LlamaForSequenceClassification(config).eval()
    reference, fast = copy.deepcopy(policy), copy.deepcopy(slow).bfloat16()
    batches = torch.randint(1, WORDS, (8, ANSWERS, LENGTH), device=DEVICE)
    steps, rewards = 0, []
    while turns.step():
        answers = batches[steps % len(batches)]
        steps += 1
        judge = slow if turns.planted else fast
        score = judge(input_ids=answers, use_cache=False).logits.float()
        distance = measure_words(policy, answers) - measure_words(reference, answers)
        rewards.append(score - 0.05 * distance.sum(1, keepdim=True))
