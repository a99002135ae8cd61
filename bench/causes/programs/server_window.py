"""A server of sentence vectors; the cause waits 6 ms for a batch that its clients can never fill.

The fix starts with the requests that are there.
"""
# causes: idle
import asyncio

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

CLIENTS, LARGEST, LENGTH, LAYERS, WIDTH, WORDS, WINDOW = 48, 64, 256, 12, 768, 8192, 0.006

Request = tuple[list[int], "asyncio.Future[list[float]]"]


class Encoder(nn.Module):
    """Words of shape (batch, length) to vectors of norm 1."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.layers(self.embedding(words)).mean(1).float(), dim=-1)


async def ask(requests: "asyncio.Queue[Request]", words: list[int]) -> None:
    """A client that asks again as soon as it has its answer."""
    while True:
        answer = asyncio.get_running_loop().create_future()
        await requests.put((words, answer))
        await answer


async def collect(requests: "asyncio.Queue[Request]", window: float) -> list[Request]:
    """The requests of the next batch."""
    batch = [await requests.get()]
    loop = asyncio.get_running_loop()
    end = loop.time() + window
    while len(batch) < LARGEST:
        if not requests.empty():
            batch.append(requests.get_nowait())
            continue
        try:
            async with asyncio.timeout_at(end):
                batch.append(await requests.get())
        except TimeoutError:
            break
    return batch


async def serve(turns: Turns, encoder: Encoder) -> None:
    requests: asyncio.Queue[Request] = asyncio.Queue()
    texts = torch.randint(WORDS, (CLIENTS, LENGTH)).tolist()
    clients = [asyncio.create_task(ask(requests, words)) for words in texts]
    while turns.step():
        batch = await collect(requests, WINDOW if turns.planted else 0.0)
        vectors = encoder(torch.tensor([words for words, _ in batch]).to(DEVICE)).tolist()
        for (_, answer), vector in zip(batch, vectors, strict=True):
            answer.set_result(vector)
        await asyncio.sleep(0)
    for client in clients:
        client.cancel()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    asyncio.run(serve(turns, Encoder().to(DEVICE).bfloat16().eval()))
