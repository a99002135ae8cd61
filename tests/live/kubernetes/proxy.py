"""A TCP proxy that can be cut: what a VPN, a load balancer or a closed laptop does to kubectl."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Forwards a loopback port to an address. `cut()` resets what is open; new calls work again."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []
        self.carried = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def cut(self) -> None:
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        self.listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
                self.open += [client, server]
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        peers = {client: server, server: client}
        with contextlib.suppress(OSError, ValueError), client, server:
            while True:
                for ready in select.select(list(peers), (), ())[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    self.carried += len(data) * (ready is server)
                    peers[ready].sendall(data)


@contextlib.contextmanager
def proxied(target: tuple[str, int]) -> Iterator[Proxy]:
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
