"""The examples of deploy/: what they say is true of the server, and a lost replica is not noticed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml
from typer.main import get_command

from clearhead.cli.verb import app
from clearhead.serve.settings import Limits

DEPLOY = Path(__file__).parents[2] / "deploy"
DRAIN = Limits().drain


def options_of_serve():
    return {name for option in get_command(app).commands["serve"].params for name in option.opts}


def parsed(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def container():
    (pod,) = [
        each["spec"]["template"]["spec"]
        for each in parsed("kubernetes.yaml")
        if each["kind"] == "Deployment"
    ]
    (only,) = pod["containers"]
    return pod, only


def test_the_replicas_of_compose_are_limited_drained_and_named_in_nginx():
    (compose,) = parsed("compose.yaml")
    named = re.findall(r"server (\S+):8000", (DEPLOY / "nginx.conf").read_text())
    replicas = {name: each for name, each in compose["services"].items() if name != "proxy"}
    assert sorted(replicas) == sorted(named) == sorted(compose["services"]["proxy"]["depends_on"])
    for replica in replicas.values():
        assert float(replica["stop_grace_period"].removesuffix("s")) > DRAIN
        assert {"cpus", "mem_limit", "pids_limit"} <= replica.keys()
        assert replica["volumes"] == ["../runs:/runs:ro"]
        assert replica["environment"]["CLEARHEAD_API_KEY"].startswith("${")
        assert (DEPLOY / replica["build"]["context"] / replica["build"]["dockerfile"]).is_file()
    published = [port for each in compose["services"].values() for port in each.get("ports", ())]
    assert published == ["127.0.0.1:8000:8080"]


def test_the_manifest_gives_a_stopping_pod_the_time_it_needs():
    pod, server = container()
    pause = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + DRAIN
    assert set(server["resources"]) == {"requests", "limits"}
    assert set(filter(lambda given: given.startswith("--"), server["args"])) <= options_of_serve()
    deployment, service, budget = parsed("kubernetes.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for wanted in (deployment, budget):
        assert wanted["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels


def test_the_probes_and_the_scrape_of_the_manifest_are_answered(process):
    _, url = process("--quiet", "--api-key", "secret", "--allow-host", "10.1.2.3")
    _, server = container()
    alive = server["livenessProbe"]["httpGet"]
    headers = {each["name"]: each["value"] for each in alive["httpHeaders"]}
    assert httpx.get(f"{url}{alive['path']}", headers=headers).status_code == 200
    *_, script = server["readinessProbe"]["exec"]["command"]
    script = script.replace("http://127.0.0.1:8000", url)
    for key, code in (("secret", 0), ("wrong", 1)):
        environment = {**os.environ, "CLEARHEAD_API_KEY": key}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
        assert done.returncode == code
    pod = parsed("kubernetes.yaml")[0]["spec"]["template"]["metadata"]["annotations"]
    scraped = {"Host": "10.1.2.3:8000", "Authorization": "Bearer secret"}
    answer = httpx.get(f"{url}{pod['prometheus.io/path']}", headers=scraped)
    assert "clearhead_in_flight" in answer.text


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def proxy(process, tmp_path):
    """Two replicas behind nginx, set up by the file of deploy/ with other addresses."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    replicas = [process("--quiet", names=("en-de",)) for _ in range(2)]
    content, port = (DEPLOY / "nginx.conf").read_text(), free_port()
    for name, (_, url) in zip("ab", replicas, strict=True):
        content = content.replace(f"clearhead-{name}:8000", url.removeprefix("http://"))
    content = content.replace("listen 8080", f"listen 127.0.0.1:{port}")
    (tmp_path / "nginx.conf").write_text(content.replace("/tmp/nginx", f"{tmp_path}/nginx"))
    server = subprocess.Popen([nginx, "-e", "stderr", "-c", str(tmp_path / "nginx.conf")])
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            httpx.get(f"{url}/healthz")
            break
        except httpx.TransportError:
            time.sleep(0.05)
    yield url, [replica for replica, _ in replicas]
    server.terminate()
    server.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_replica_that_is_lost_under_load_fails_no_request(proxy, how):
    url, replicas = proxy
    n_requests, done = 400, []

    def ask(number):
        answer = httpx.post(
            f"{url}/api/translate", json={"text": f"the cat sees {number} dogs ."}, timeout=60
        )
        done.append(number)
        if len(done) == n_requests // 4:
            replicas[0].send_signal(how)
        return answer.status_code

    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(ask, range(n_requests)))
    assert replicas[0].wait(40) == (0 if how is signal.SIGTERM else -signal.SIGKILL)
    assert codes == [200] * n_requests
    assert replicas[1].poll() is None
