"""Beam search over a GPT; the cause keeps the beams in Python and asks for the words of each."""
# causes: idle, synchronization
import torch
from parts import DEVICE, Gpt, use_gpu
from turns import Turns

SENTENCES, BEAMS, PROMPT, NEW, WORDS = 8, 6, 192, 6, 8192
Beam = tuple[float, list[int]]


def extend(beams: list[Beam], scores: torch.Tensor) -> list[Beam]:
    """The best beams of a sentence after one more word."""
    found = []
    for (total, words), row in zip(beams, scores, strict=True):
        values, choices = row.topk(BEAMS)
        for value, choice in zip(values.tolist(), choices.tolist(), strict=True):
            found.append((total + value, [*words, choice]))
    return sorted(found, key=lambda beam: beam[0], reverse=True)[:BEAMS]


def search_in_python(model: Gpt, prompts: list[list[int]]) -> list[list[Beam]]:
    every = [[(0.0 if i == 0 else -1e9, prompt) for i in range(BEAMS)] for prompt in prompts]
    for _ in range(NEW):
        rows = [words for beams in every for _, words in beams]
        logits = model(torch.tensor(rows, device=DEVICE))[:, -1]
        scores = logits.float().log_softmax(-1).view(SENTENCES, BEAMS, WORDS)
        every = [extend(beams, some) for beams, some in zip(every, scores, strict=True)]
    return every


def search_on_device(model: Gpt, prompts: torch.Tensor) -> list[list[list[int]]]:
    words = prompts[:, None].expand(-1, BEAMS, -1)
    totals = torch.full((SENTENCES, BEAMS), -1e9, device=DEVICE)
    totals[:, 0] = 0
    for _ in range(NEW):
        logits = model(words.flatten(0, 1))[:, -1]
        scores = logits.float().log_softmax(-1).view(SENTENCES, BEAMS, WORDS)
        totals, places = (totals[..., None] + scores).flatten(1).topk(BEAMS)
        parents = (places // WORDS)[..., None].expand(-1, -1, words.shape[-1])
        words = torch.cat([words.gather(1, parents), (places % WORDS)[..., None]], -1)
    return words.tolist()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(6, 768, words=WORDS).to(DEVICE, torch.bfloat16).eval()
    prompts = torch.randint(WORDS, (SENTENCES, PROMPT), device=DEVICE)
    lists = prompts.tolist()
    with torch.inference_mode():
        while turns.step():
            if turns.planted:
                search_in_python(model, lists)
            else:
                search_on_device(model, prompts)
