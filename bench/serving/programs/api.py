"""The API server of ../programs/server.py, and a closed loop of users that loads it.

A process of its own, as engines have it: it never uses the GPU. server.py starts it with the number
of a pipe, through which requests go to the engine, and tokens come back.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

MOST_BODY, WORDS = 1 << 20, 400
PROMPTS = (16, 60, 100, 60, 16, 100, 60, 3900)
OUTPUTS = (32, 96)


def make_text(token: int) -> str:
    """A stand-in for a detokenizer: some 0.1 ms of Python."""
    return " ".join(sorted(map(str, range(token % 7, WORDS)), key=len)).upper()


@dataclass
class Api:
    engine: Connection
    numbers: int = 0
    told: dict[int, asyncio.Queue[int]] = field(default_factory=dict)

    def read_engine(self, loads: asyncio.Queue[tuple[int, int]]) -> None:
        """Take what the engine sent: a load to make, or tokens."""
        while self.engine.poll():
            try:
                message = self.engine.recv()
            except EOFError:
                raise SystemExit from None
            if isinstance(message, tuple):
                loads.put_nowait(message)
                continue
            for number, token, _ in message:
                self.told[number].put_nowait(token)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one POST: a line a token."""
        body = json.loads(await _read_body(reader))
        self.numbers += 1
        number, told = self.numbers, asyncio.Queue[int]()
        self.told[number] = told
        self.engine.send((number, body["prompt"], body["tokens"]))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(body["tokens"]):
            token = await told.get()
            make_text(token)
            writer.write(b"%d\n" % token)
        del self.told[number]
        await writer.drain()
        writer.close()


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return await reader.readexactly(min(MOST_BODY, int(fields[b"content-length"])))


async def _ask(port: int, number: int) -> dict[str, object]:
    """Send one request; its times in Unix seconds. The same number asks the same."""
    draw = random.Random(number)
    prompt = [draw.randrange(8192) for _ in range(PROMPTS[number % len(PROMPTS)])]
    body = json.dumps({"prompt": prompt, "tokens": draw.randint(*OUTPUTS)}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    arrival = time.time()
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await reader.readuntil(b"\r\n\r\n")
    times = [time.time() async for _ in reader]
    writer.close()
    line = {"id": str(number), "arrival": arrival, "first_token": times[0], "end": times[-1]}
    return {**line, "tokens": len(times)}


async def _load(port: int, requests: int, users: int) -> list[dict[str, object]]:
    """Users that send a request when the one before is answered."""
    numbers, lines = iter(range(requests)), list[dict[str, object]]()

    async def use() -> None:
        for number in numbers:
            lines.append(await _ask(port, number))

    await asyncio.gather(*(use() for _ in range(users)))
    return lines


async def _serve(engine: Connection) -> None:
    api, loads = Api(engine), asyncio.Queue[tuple[int, int]]()
    asyncio.get_running_loop().add_reader(engine.fileno(), api.read_engine, loads)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    while True:
        engine.send(await _load(port, *await loads.get()))


if __name__ == "__main__":
    asyncio.run(_serve(Connection(int(sys.argv[1]))))
