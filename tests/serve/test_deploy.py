"""The files of deploy/: their options, limits, metrics and paths are those of the service. The proxy is run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from idcwh_search.cli.serve import parser
from idcwh_search.serve import server as process
from idcwh_search.serve import uploads
from support.server import Server, form, is_problem

from .conftest import Collection, pairs

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_PROMETHEUS = {"instance", "job", "le"}


def directive(text: str, name: str) -> str:
    """Returns the value of the first line with this name in the unit or in the proxy's file."""
    found = re.search(rf"^\s*{name}[ =](.*?);?$", text, re.MULTILINE)
    assert found is not None, name
    return found.group(1)


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    """The container and the pod of the Kubernetes deployment."""
    deployment = next(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    pod = deployment["spec"]["template"]["spec"]
    return {"pod": pod, **pod["containers"][0]}


def test_deployed_commands_have_valid_options(container: dict[str, Any]) -> None:
    unit = (DEPLOY / "idcwh-serve.service").read_text()
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    entry, default = (json.loads(next(line for line in lines if line.startswith(name))[len(name) :]) for name in (
        "ENTRYPOINT", "CMD",
    ))  # fmt: skip
    command, *options = shlex.split(directive(unit, "ExecStart"))
    assert Path(command).name == entry[0] == "idcwh-serve"
    for arguments in (options, entry[1:] + default, entry[1:] + container["args"]):
        parser().parse_args(arguments)
    mounted = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    assert all(arg.split("=")[1].startswith(mounted) for arg in container["args"] if "=/" in arg)


def test_deployed_limits_are_those_of_the_service(container: dict[str, Any]) -> None:
    proxy, unit = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "idcwh-serve.service").read_text()
    assert directive(proxy, "client_max_body_size") == f"{uploads.MAX_BODY // 2**20}m"
    assert directive(proxy, "client_body_timeout") == f"{uploads.BODY_SECONDS:.0f}s"
    assert int(directive(unit, "TimeoutStopSec")) > process._GRACE + 1
    drain = parser().parse_args(container["args"]).drain
    assert container["pod"]["terminationGracePeriodSeconds"] > process._GRACE + drain
    user = container["pod"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (DEPLOY / "Dockerfile").read_text()


def test_deployed_probes_are_answered(server: Server, container: dict[str, Any]) -> None:
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server.client.get(container[name]["httpGet"]["path"]).status_code == 200
    address = re.findall(r"http://127\.0\.0\.1:8000(/\w+)", (DEPLOY / "Dockerfile").read_text())
    assert address == ["/healthz"] and server.client.get(address[0]).status_code == 200


def expressions() -> list[str]:
    """Returns the PromQL of the dashboard and of the alerts."""
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    alerts = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    variables = [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return variables + panels + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def test_dashboard_and_alerts_have_known_metrics(server: Server, collection: Collection) -> None:
    server.client.post("/v1/search", files=form(collection.query))
    labels: dict[str, dict[str, set[str]]] = {"up": {}}
    for family in text_string_to_metric_families(server.client.get("/metrics").text):
        for one in family.samples:
            known = labels.setdefault(one.name, {})
            for name, value in one.labels.items():
                known.setdefault(name, set()).add(value)
    used = set()
    for text in expressions():
        for metric, matchers in re.findall(r"\b(up|(?:idcwh|process)_\w+)(\{[^}]*\})?", text):
            used.add(metric)
            assert metric in labels, text
            for name, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', matchers):
                known = labels[metric].get(name)
                assert known is not None or name in OF_PROMETHEUS, text
                assert known is None or name == "status" or operator == "=~" or value in known, text
        grouped = {name.strip() for names in re.findall(r"by \(([^)]*)\)", text) for name in names.split(",")}
        every = {name for metric in labels if metric in text for name in labels[metric]}
        assert grouped <= every | OF_PROMETHEUS, text
    served = {
        name for name in labels if name.startswith("idcwh_") and not name.endswith(("_created", "_count", "_sum"))
    }
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in served} <= {
        re.sub("_(bucket|sum|count)$", "", name) for name in used
    }  # the dashboard leaves none out


@pytest.mark.slow
def test_prometheus_accepts_the_files(tmp_path: Path) -> None:
    promtool = shutil.which("promtool") or pytest.skip("promtool is missing (Debian: prometheus)")
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    config = tmp_path / "deploy" / "prometheus.yml"
    (tmp_path / "key").write_text("key")
    config.write_text(config.read_text().replace("/etc/prometheus/idcwh-read.key", str(tmp_path / "key")))
    panels = [text.replace("$__rate_interval", "1m") for text in expressions() if "label_values" not in text]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(panels)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for kind, file in (("config", config), ("rules", tmp_path / "panels.yml")):
        done = subprocess.run(
            [promtool, "check", kind, "--lint-fatal", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Proxy:
    """nginx with the file of deploy/, a certificate of its own, and free ports."""

    def __init__(self, folder: Path, port: int) -> None:
        nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin") or pytest.skip(
            "nginx is missing (Debian: nginx-light)"
        )
        self.plain, self.encrypted = free_port(), free_port()
        certificate, key = folder / "fullchain.pem", folder / "privkey.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
            check=True, capture_output=True,
        )  # fmt: skip
        text = (DEPLOY / "nginx.conf").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        text = re.sub(r".*listen \[::\].*\n", "", text).replace("/etc/ssl/idcwh", str(folder))
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.plain};")
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{self.encrypted} ")
        (folder / "site.conf").write_text(text)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "main.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log stderr warn; events {{}}\n"
            f"http {{ access_log off; {temporary} include {folder}/site.conf; }}\n"
        )
        command = [nginx, "-p", str(folder), "-e", "stderr", "-c", str(folder / "main.conf")]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        trusted = ssl.create_default_context(cafile=str(certificate))
        self.client = httpx2.Client(base_url=f"https://127.0.0.1:{self.encrypted}", verify=trusted, timeout=60)
        for _ in range(500):
            try:
                self.client.get("/healthz")
                break
            except httpx2.ConnectError:
                time.sleep(0.02)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait()


@pytest.mark.slow
def test_proxy_answers_as_the_service(start: Callable[..., Server], collection: Collection, tmp_path: Path) -> None:
    server = start("--db", collection.database, "--images", collection.images, "--drain", "0.1")
    proxy = Proxy(tmp_path, server.port)
    try:
        check_proxy(server, proxy, collection)
        assert server.terminate() == 0
        answer = proxy.client.get("/v1/info")
        assert is_problem(answer, 503, "does not answer") and answer.headers["retry-after"] == "1"
    finally:
        proxy.close()


def check_proxy(server: Server, proxy: Proxy, collection: Collection) -> None:
    plain = httpx2.get(f"http://127.0.0.1:{proxy.plain}/x?y=1", headers={"host": "images.example.org"})
    assert (plain.status_code, plain.headers["location"]) == (301, "https://images.example.org/x?y=1")

    direct, through = server.client, proxy.client
    page = through.get("/")
    assert page.headers["content-security-policy"] == direct.get("/").headers["content-security-policy"]
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    found = through.post("/v1/search", files=form(collection.query), data={"k": "61"})
    assert pairs(found.json()) == pairs(
        direct.post("/v1/search", files=form(collection.query), data={"k": "61"}).json()
    )
    assert found.headers["content-encoding"] == "gzip"

    head = b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'
    image = head + collection.query.read_bytes() + b"\r\n--b--\r\n"
    boundary = {"content-type": "multipart/form-data; boundary=b"}

    def streamed(padding: int) -> Iterator[bytes]:
        yield from (image[at : at + 100] for at in range(0, len(image), 100))
        yield from [bytes(2**20)] * padding

    small = through.post("/v1/search", content=streamed(2), headers=boundary)
    assert pairs(small.json()) == pairs(found.json())[:20]
    refused = [
        client.post("/v1/search", content=image + bytes(33 * 2**20), headers=boundary) for client in (direct, through)
    ]
    refused.append(through.post("/v1/search", content=streamed(40), headers=boundary))
    assert all(is_problem(answer, 413, "too large") for answer in refused)
    assert len({answer.json()["detail"] for answer in refused}) == 1

    for key in (*collection.keys[:3], "..%2f", "a//b", "😀" * 2048):
        path = f"/v1/items/{key if '%' in key else quote(key)}"
        assert through.get(path).json() == direct.get(path).json(), key
    tag = through.get(f"/v1/thumbnails/{quote(collection.keys[0])}").headers["etag"]
    again = through.get(f"/v1/thumbnails/{quote(collection.keys[0])}", headers={"if-none-match": tag})
    assert again.status_code == 304
    assert is_problem(through.get("/metrics"), 404, "/metrics")
