"""Serve the engine over HTTP on loopback, and load it with a closed loop.

    python3 bench/serving/programs/server.py --device cuda --out DIR [--cause host_gap]

DIR gets steps.jsonl (the engine's own log, which ../score.py holds against a recording) and
requests.jsonl (for `diagnose --requests`). Without `--cause` the server is healthy. To record it:

    ./inv profile --on host --name healthy -- python3 bench/serving/programs/server.py --out DIR
    ./inv diagnose --run healthy --requests DIR/requests.jsonl
"""

import argparse
import asyncio
import json
import random
import time
from pathlib import Path

from engine import CAUSES, CHUNK, Engine, Request

MOST_BODY = 1 << 20


async def _run_engine(engine: Engine) -> None:
    """Iterate as long as there are requests; the loop answers others in between."""
    while True:
        await asyncio.sleep(0 if engine.step() else 0.001)


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return await reader.readexactly(min(MOST_BODY, int(fields[b"content-length"])))


async def _answer(
    engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one POST: a line a token."""
    body = json.loads(await _read_body(reader))
    told = asyncio.Queue[int]()
    engine.submit(Request(body["prompt"], body["tokens"], told.put_nowait))
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    for _ in range(body["tokens"]):
        writer.write(b"%d\n" % await told.get())
    await writer.drain()
    writer.close()


async def _ask(port: int, number: int, draw: random.Random) -> dict[str, object]:
    """Send one request; its times in Unix seconds."""
    prompt = [draw.randrange(8192) for _ in range(draw.choice((16, CHUNK, 400)))]
    body = json.dumps({"prompt": prompt, "tokens": draw.randint(8, 32)}).encode()
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

    async def use(user: int) -> None:
        draw = random.Random(user)
        for number in numbers:
            lines.append(await _ask(port, number, draw))

    await asyncio.gather(*(use(user) for user in range(users)))
    return lines


async def _serve(chosen: argparse.Namespace) -> None:
    log, size = chosen.out / "steps.jsonl", (chosen.layers, chosen.width)
    engine = Engine(chosen.device, chosen.cause, not chosen.no_marks, log, *size)
    server = await asyncio.start_server(
        lambda reader, writer: _answer(engine, reader, writer), "127.0.0.1", 0
    )
    turning = asyncio.create_task(_run_engine(engine))
    port = server.sockets[0].getsockname()[1]
    start = time.time()
    loading = asyncio.create_task(_load(port, chosen.requests, chosen.users))
    await asyncio.wait((turning, loading), return_when=asyncio.FIRST_COMPLETED)
    if turning.done():
        await turning  # raises the engine's error: the users would wait for tokens without an end
    lines = await loading
    turning.cancel()
    server.close()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (chosen.out / "requests.jsonl").write_text(text, encoding="utf-8")
    tokens = sum(int(str(line["tokens"])) for line in lines)
    print(f"{len(lines)} requests, {tokens / (time.time() - start):.1f} tokens a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--cause", default="", choices=("", *CAUSES))
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--users", type=int, default=12)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--no-marks", action="store_true", help="as an engine that marks nothing")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    asyncio.run(_serve(chosen))


if __name__ == "__main__":
    main()
