"""An admission webhook that changes labelled pods: init container, volume, variables."""

import base64
import http.server
import json
import ssl
from pathlib import Path
from typing import Any

PROFILE = json.loads(Path("/etc/injector/profile.json").read_text())
HOOK = Path("/etc/injector/hook.sh").read_text()
BIN = "/nvidia-devtools/bin"
PATH = f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOUNT = {"name": "nvidia-devtools", "mountPath": "/nvidia-devtools"}


def injected(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec with what the injector adds; unchanged where it has been here before."""
    if any(c["name"] == "nvidia-devtools-binaries" for c in spec.get("initContainers", ())):
        return spec
    script = f'mkdir -p {BIN} && printf %s "$HOOK" >{BIN}/python3 && chmod +x {BIN}/python3'
    binaries = {
        "name": "nvidia-devtools-binaries",
        "image": PROFILE["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["bash", "-c", script],
        "env": [{"name": "HOOK", "value": HOOK}],
        "volumeMounts": [MOUNT],
    }
    variables = {
        "PATH": PATH,
        "INJECTION_MATCH": PROFILE["injectionMatch"],
        "DEVTOOL_ARGS": PROFILE["devtoolArgs"],
    }
    for container in spec["containers"]:
        container["env"] = [
            *container.get("env", ()),
            *({"name": key, "value": value} for key, value in variables.items()),
        ]
        mounts = (*container.get("volumeMounts", ()), MOUNT, *PROFILE["volumeMounts"])
        container["volumeMounts"] = list(mounts)
    volumes = (*spec.get("volumes", ()), {"name": MOUNT["name"], "emptyDir": {}})
    spec["volumes"] = [*volumes, *PROFILE["volumes"]]
    spec["initContainers"] = [*spec.get("initContainers", ()), binaries]
    return spec


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        patch = [{"op": "replace", "path": "/spec", "value": injected(request["object"]["spec"])}]
        review["response"] = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("", 8443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/etc/tls/tls.crt", "/etc/tls/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
