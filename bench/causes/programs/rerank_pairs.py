"""A server that ranks passages by a cross-encoder (transformers); the cause scores pair by pair.

The fix pads the pairs of a question to the longest, and scores them together.
"""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from transformers import BertConfig, BertForSequenceClassification
from turns import Turns

PASSAGES, SHORTEST, LONGEST, LAYERS, WIDTH, WORDS, QUESTIONS = 24, 60, 128, 6, 384, 8192, 50


def score_one_by_one(model: BertForSequenceClassification, pairs: list[torch.Tensor]) -> torch.Tensor:
    scores = [model(input_ids=pair[None].to(DEVICE)).logits.flatten() for pair in pairs]
    return torch.cat(scores)


def score_together(model: BertForSequenceClassification, pairs: list[torch.Tensor]) -> torch.Tensor:
    words = torch.nn.utils.rnn.pad_sequence(pairs, batch_first=True).to(DEVICE)
    return model(input_ids=words, attention_mask=words > 0).logits.flatten()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, num_labels=1,
    )  # fmt: skip
    model = BertForSequenceClassification(config).to(DEVICE).bfloat16().eval()
    lengths = torch.randint(SHORTEST, LONGEST + 1, (QUESTIONS, PASSAGES)).tolist()
    questions = [[torch.randint(1, WORDS, (length,)) for length in row] for row in lengths]
    answered, answers = 0, []
    while turns.step():
        pairs = questions[answered % QUESTIONS]
        answered += 1
        score = score_one_by_one if turns.planted else score_together
        answers.append(score(model, pairs).argsort(descending=True).tolist()[:5])
