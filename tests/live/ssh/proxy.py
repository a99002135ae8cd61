"""A network that can be cut: a TCP proxy on loopback before a server."""

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes on until `cut`, which closes all that is open and refuses what is new.

    `budget`: cut by itself once so many bytes came back from the server.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._open: list[socket.socket] = []
        self._up = True
        self.budget: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        self._up = False
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def mend(self) -> None:
        self._up, self.budget = True, None

    def close(self) -> None:
        """Ends the thread that accepts first: left waiting, it would accept on the next proxy's
        listener, which gets the number that this one's file had.
        """
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._up:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket, counted: bool) -> None:
        with source, contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
                if counted and self.budget is not None:
                    self.budget -= len(data)
                    if self.budget < 0:
                        self.cut()
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)
