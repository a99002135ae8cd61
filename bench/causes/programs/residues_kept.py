"""Vectors of all residues of proteins (ProtBert in transformers) for files; the cause is `.cpu()` of each batch.

The host waits for the batch, and a copy to new pageable memory. The fix copies to pinned memory that
is kept, and hands a batch to the writer of files when the next one is launched.
"""
# causes: pageable_copy
from collections import deque

import torch
from parts import DEVICE, use_gpu
from transformers import BertConfig, BertModel
from turns import Turns

PROTEINS, LENGTH, WORDS, WIDTH, LAYERS, BATCHES, KEPT = 48, 512, 30, 1024, 12, 6, 4


def make_model() -> BertModel:
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=16,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH,
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False).to(DEVICE, torch.float16).eval()


class Outbox:
    """Pinned memory for some batches; the writer gets one when its copy has ended."""

    def __init__(self, written: deque[torch.Tensor]) -> None:
        shape = (PROTEINS, LENGTH, WIDTH)
        self.rooms = [
            torch.empty(shape, dtype=torch.float16, pin_memory=True) for _ in range(KEPT + 2)
        ]
        self.written, self.sent = written, 0
        self.waiting: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def send(self, vectors: torch.Tensor) -> None:
        room, event = self.rooms[self.sent % len(self.rooms)], torch.cuda.Event()
        room.copy_(vectors, non_blocking=True)
        event.record()
        self.waiting.append((room, event))
        self.sent += 1
        if len(self.waiting) > 1:
            self.hand_over()

    def hand_over(self) -> None:
        room, event = self.waiting.popleft()
        event.synchronize()
        self.written.append(room)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    batches = torch.randint(5, WORDS, (BATCHES, PROTEINS, LENGTH), device=DEVICE)
    written: deque[torch.Tensor] = deque(maxlen=KEPT)
    outbox, steps = Outbox(written), 0
    while turns.step():
        vectors = model(input_ids=batches[steps % BATCHES]).last_hidden_state
        if turns.planted:
            written.append(vectors.cpu())
        else:
            outbox.send(vectors)
        steps += 1
