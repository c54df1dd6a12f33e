"""Image and compose file: sound by their schemas, and, with the chart, true of this scstream."""

import re
import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from compose_spec import PyOptions

import scstream
from scstream.cli.main import app
from scstream.cli.settings import PREFIX, SINGLE, read_environment, read_file, to_tables
from scstream.stream.config import build
from scstream.stream.store import MemoryStore
from tests.deploy.shipped import DEPLOY, ROOT, compose, documents
from tests.deploy.tools import objects, rendered

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"].startswith("scstream:")}
MANIFESTS = objects(rendered())
PODS = {each["metadata"]["name"]: each for each in MANIFESTS if "template" in each.get("spec", {})}
CONTAINERS = {
    name: container
    for name, each in PODS.items()
    for container in each["spec"]["template"]["spec"]["containers"]
}
WHERE = {"NATS_URL": "nats://broker:4222"}
SECRET = re.compile(r"password|secret|token|(?<!public_)key", re.IGNORECASE)


def commands() -> dict[str, list[str]]:
    """Every command line of scstream in deploy/, by where it stands."""
    found = {
        f"compose {name}": each["command"]
        for name, each in OURS.items()
        if "entrypoint" not in each
    }
    found |= {f"kubernetes {name}": each["args"] for name, each in CONTAINERS.items()}
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text()
    (unit,) = re.findall(r"^ExecStart=\S+/scstream (.*)$", page, re.MULTILINE)
    found["systemd"] = unit.split()
    found["Dockerfile"] = yaml.safe_load(re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[-1])
    return found


COMMANDS = commands()


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Options of a command line by name; raises what a user would see. Nothing is run."""
    name, *rest = arguments
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    params: dict[str, Any] = command.make_context(name, rest).params
    return params


class TestImage:
    def test_hadolint_finds_nothing(self, hadolint: str) -> None:
        command = [hadolint, "--failure-threshold", "style", str(DEPLOY / "Dockerfile")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout

    def test_hadolint_finds_a_careless_one_out(self, hadolint: str, tmp_path: Path) -> None:
        careless = tmp_path / "Dockerfile"
        careless.write_text("FROM python\nRUN cd /tmp && apt-get install curl\n")
        command = [hadolint, "--failure-threshold", "style", str(careless)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "DL3006" in done.stdout

    def test_it_runs_without_rights_from_chosen_images(self) -> None:
        assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
        bases = dict(re.findall(r"^ARG (\w*BASE)=(\S+)$", DOCKERFILE, re.MULTILINE))
        used = re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.MULTILINE)
        assert used == ["BUILD_BASE", "BASE"] == list(bases)
        tag = r"python:3\.\d+\.\d+-(slim-)?bookworm(@sha256:[0-9a-f]{64})?"
        assert all(re.fullmatch(tag, base) for base in bases.values())
        assert "slim" in bases["BASE"]

    def test_everything_is_installed_with_a_hash_of_a_lock(self) -> None:
        """Only our own wheel, which the same build made, has none."""
        joined = DOCKERFILE.replace("\\\n", " ")
        installs = re.findall(r"(?:uv )?pip (?:install|wheel) [^&\n]*", joined)
        assert len(installs) == 4
        for each in installs:
            is_hashed = "--require-hashes" in each and re.search(r"requirements/\w+\.lock", each)
            assert is_hashed or "--no-deps" in each, each
        assert "--no-build-isolation" in next(each for each in installs if "wheel " in each)

    def test_extras_are_those_of_the_package(self) -> None:
        (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.MULTILINE)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"])

    def test_what_is_copied_is_sent_to_the_builder_and_nothing_else(self) -> None:
        ignored = (ROOT / ".dockerignore").read_text().splitlines()
        sent = {line[1:] for line in ignored if line.startswith("!")}
        copied = re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        names = {name for line in copied for name in line.split()}
        assert "*" in ignored and names == sent
        assert all((ROOT / name).exists() for name in names)


class TestCompose:
    def test_it_is_sound(self) -> None:
        spec = PyOptions(apply_merge=True).from_yaml((DEPLOY / "compose.yaml").read_text())
        spec.validate()
        assert sorted(spec.service_names()) == sorted(SERVICES)
        assert spec.to_spec().services is not None

    def test_the_broker_understands_its_settings(self) -> None:
        server = Path(sysconfig.get_path("scripts")) / "nats-server"
        command = [server, "-t", "-c", DEPLOY / "compose" / "nats.conf"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    def test_the_check_can_fail(self) -> None:
        with pytest.raises(ValueError, match="pots"):
            PyOptions().from_yaml("services: {a: {image: b, pots: []}}")

    def test_only_this_machine_reaches_it(self) -> None:
        ports = [port for each in SERVICES.values() for port in each.get("ports", [])]
        assert len(ports) == 4
        assert all(port.startswith("127.0.0.1:") for port in ports)

    def test_it_holds_no_secret(self) -> None:
        for name, each in SERVICES.items():
            for variable in each.get("environment", {}):
                words = SECRET.search(variable.removeprefix("GF_SECURITY_"))
                assert words is None, f"{name}: {variable}"
        token = compose()["secrets"]["token"]["file"]
        assert not (DEPLOY / token).exists()
        assert Path(token).name in (DEPLOY / "compose" / ".gitignore").read_text().split()

    def test_our_containers_can_do_little(self) -> None:
        for each in OURS.values():
            assert each["read_only"] and each["cap_drop"] == ["ALL"]
            assert each["security_opt"] == ["no-new-privileges:true"]

    def test_images_are_pinned_and_ours_is_this_version(self) -> None:
        for each in SERVICES.values():
            assert re.search(r":v?\d+\.\d+\.\d+", each["image"]), each["image"]
        assert {each["image"] for each in OURS.values()} == {f"scstream:{scstream.__version__}"}

    def test_what_is_mounted_is_there_and_what_is_named_is_declared(self) -> None:
        whole = compose()
        for each in SERVICES.values():
            for volume in each.get("volumes", []):
                source = volume.split(":")[0]
                known = (DEPLOY / source).exists() if "/" in source else source in whole["volumes"]
                assert known, volume
            assert set(each.get("secrets", [])) <= set(whole["secrets"])
            assert set(each.get("depends_on", {})) <= set(SERVICES)

    def test_the_service_follows_the_checkpoints_of_the_pipeline(self) -> None:
        pipeline = tomllib.loads((DEPLOY / "compose" / "pipeline.toml").read_text())
        (home,) = re.findall(r"^WORKDIR (/var/\S+)$", DOCKERFILE, re.MULTILINE)
        assert OURS["serve"]["command"][1] == f"{home}/{pipeline['checkpoint']['folder']}"
        assert f"state:{home}" in OURS["run"]["volumes"]
        assert f"state:{home}:ro" in OURS["serve"]["volumes"]
        assert "/run/secrets/token" in OURS["serve"]["command"]


def kubernetes_pipeline() -> str:
    (found,) = [each for each in MANIFESTS if each["kind"] == "ConfigMap"]
    text: str = found["data"]["pipeline.toml"]
    return text


class TestTruth:
    """What deploy/ says about scstream is so."""

    def test_there_are_commands_of_every_kind(self) -> None:
        assert {command[0] for command in COMMANDS.values()} == {"run", "serve", "--help"}

    @pytest.mark.parametrize("where", [w for w in COMMANDS if w != "Dockerfile"])
    def test_every_command_line_is_understood(self, where: str) -> None:
        assert parsed(COMMANDS[where])

    def test_a_command_line_that_is_not_would_be_noticed(self) -> None:
        with pytest.raises(Exception, match="--metrix"):
            parsed(["run", "pipeline.toml", "--metrix", "0.0.0.0:9464"])

    @pytest.mark.parametrize("where", ["compose", "kubernetes"])
    def test_the_pipelines_can_be_built(self, where: str, tmp_path: Path) -> None:
        file = tmp_path / "pipeline.toml"
        shipped = (DEPLOY / "compose" / "pipeline.toml").read_text()
        file.write_text(shipped if where == "compose" else kubernetes_pipeline())
        given = OURS["run"]["environment"] if where == "compose" else WHERE
        assert build(to_tables(read_file(file, given)), store=MemoryStore()).job == "demo"

    def test_every_variable_of_ours_is_known(self) -> None:
        folders = (ROOT / "src", ROOT / "tests")  # one starts a broker for tests
        sources = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
        others = set(re.findall(r'"(SCSTREAM_[A-Z]+)"', "".join(sources)))
        files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        text = "".join(path.read_text() for path in files)
        for name in set(re.findall(r"SCSTREAM_[A-Z_]+", text)) - others:
            assert read_environment({name: "1"}), name
        assert "SCSTREAM_KERNELS" in others and PREFIX == "SCSTREAM_" and "job" in SINGLE

    def test_ports_agree(self) -> None:
        run, serve = parsed(COMMANDS["compose run"]), parsed(COMMANDS["compose serve"])
        metrics_port = run["metrics"].rpartition(":")[2]
        http_port = str(serve["port"])
        assert f"EXPOSE {http_port} {metrics_port}" in DOCKERFILE
        assert f"HEALTH_URL=http://127.0.0.1:{metrics_port}/metrics" in DOCKERFILE
        assert urlsplit(OURS["serve"]["environment"]["HEALTH_URL"]).port == int(http_port)
        assert OURS["serve"]["ports"] == [f"127.0.0.1:{http_port}:{http_port}"]
        assert parsed(COMMANDS["kubernetes scstream-run"])["metrics"] == run["metrics"]
        assert str(parsed(COMMANDS["kubernetes scstream-serve"])["port"]) == http_port
        wanted = {"scstream-run": int(metrics_port), "scstream-serve": int(http_port)}
        for name, container in CONTAINERS.items():
            assert [port["containerPort"] for port in container["ports"]] == [wanted[name]]
            annotated = PODS[name]["spec"]["template"]["metadata"]["annotations"]
            assert annotated["prometheus.io/port"] == str(wanted[name])
        for each in MANIFESTS:
            if each["kind"] == "Service":
                part = f"scstream-{each['metadata']['labels']['app.kubernetes.io/component']}"
                assert each["spec"]["ports"][0]["port"] == wanted[part]

    def test_prometheus_looks_where_metrics_are(self) -> None:
        jobs = scrapes("prometheus.yml")
        assert {name: job["static_configs"][0]["targets"] for name, job in jobs.items()} == {
            "scstream-run": [
                "run:" + parsed(COMMANDS["compose run"])["metrics"].rpartition(":")[2]
            ],
            "scstream-serve": [f"serve:{parsed(COMMANDS['compose serve'])['port']}"],
        }
        secret = jobs["scstream-serve"]["authorization"]["credentials_file"]
        assert secret == parsed_text(COMMANDS["compose serve"], "--token-file")
        assert "token" in SERVICES["prometheus"]["secrets"]

    def test_prometheus_finds_the_pods(self) -> None:
        services = {
            each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] == "Service"
        }
        jobs = scrapes("kubernetes.yml")
        assert set(jobs) == {"scstream-run", "scstream-serve"}
        for name, job in jobs.items():
            (record,) = job["dns_sd_configs"][0]["names"]
            port, _, service, space, *_ = record.split(".")
            assert space == "scstream"
            spec = services[service]["spec"]
            assert spec["clusterIP"] == "None"
            assert port == f"_{spec['ports'][0]['name']}"
            part = spec["selector"]["app.kubernetes.io/component"]
            assert name == f"scstream-{part}"


def scrapes(name: str) -> dict[str, dict[str, Any]]:
    (whole,) = documents(DEPLOY / "prometheus" / name)
    return {job["job_name"]: job for job in whole["scrape_configs"]}


def parsed_text(command: list[str], flag: str) -> str:
    return command[command.index(flag) + 1]


def test_commands_in_comments_name_files_that_there_are() -> None:
    for path in (
        DEPLOY / "Dockerfile",
        DEPLOY / "compose.yaml",
        DEPLOY / "prometheus" / "rules.yml",
    ):
        lines = [line[1:].strip() for line in path.read_text().splitlines() if line[:1] == "#"]
        told = [line for line in lines if line.startswith(("docker ", "promtool "))]
        assert told, path
        for line in told:
            named = [word for word in shlex.split(line) if word.startswith("deploy/")]
            assert named and all((ROOT / word).exists() for word in named), line
