"""The Helm chart: sound by helm, its own schema and those of Kubernetes, and true of scstream."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import scstream
from tests.deploy.tools import CHART, objects, rendered, run, script, write_schemas

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
EVERYTHING = {
    "image": {"digest": "sha256:" + "a" * 64, "pullSecrets": ["registry"]},
    "checkpoints": "/var/lib/scstream/checkpoints",
    "volume": {"existingClaim": "shared"},
    "pipeline": {"standby": True, "ingestPort": 8080, "args": ["--spans"]},
    "service": {
        "autoscaling": {"enabled": False},
        "replicas": 3,
        "allowHosts": ["scstream.example.com"],
        "args": ["--access-log"],
    },
    "networkPolicy": {
        "pipeline": [
            {"connector": "nats", "namespace": "broker", "pods": {"app": "nats"}},
            {"connector": "kafka", "ports": [9094]},
            {"connector": "redis", "cidr": "10.0.0.0/8"},
            *({"connector": name} for name in ("postgres", "qdrant", "otlp", "https")),
        ]
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceAccount": "store-reader",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priorityClassName": "high",
}
PLAIN = {
    "service": {"tokenSecret": {"name": ""}},
    "pipeline": {"secrets": []},
    "secrets": [],
    "volume": {"storageClass": "fast"},
    "networkPolicy": {"enabled": False},
}
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": EVERYTHING,
    "plain": PLAIN,
    "pipeline only": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}},
    "service only": {"pipeline": {"enabled": False}, "serviceMonitor": {"enabled": True}},
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The chart under each case of values, rendered once."""
    folder = tmp_path_factory.mktemp("values")
    found = {}
    for name, values in CASES.items():
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(values))
        found[name] = rendered("--values", str(file))
    return found


def by_name(text: str) -> dict[str, dict[str, Any]]:
    return {f"{each['kind']} {each['metadata']['name']}": each for each in objects(text)}


def pods(text: str) -> dict[str, dict[str, Any]]:
    return {
        name: each["spec"]["template"]
        for name, each in by_name(text).items()
        if "template" in each.get("spec", {})
    }


class TestTools:
    def test_helm_finds_nothing(self) -> None:
        done = run(script("helm"), "lint", "--strict", "--quiet", str(CHART))
        assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr

    def test_helm_finds_a_careless_one_out(self, tmp_path: Path) -> None:
        chart = Path(shutil.copytree(CHART, tmp_path / "scstream"))
        with (chart / "templates" / "pipeline.yaml").open("a") as file:
            file.write("{{ .Values.pipeline.nothing.at.all }}")
        assert run(script("helm"), "lint", "--strict", str(chart)).returncode == 1

    @pytest.mark.parametrize("version", ["1.28", "1.37"])
    def test_kubeconform_accepts_every_case_and_no_planted_error(
        self, version: str, texts: dict[str, str], kubeconform: str, tmp_path: Path
    ) -> None:
        """The custom resource of the Prometheus operator has no schema there."""
        whole = "\n---\n".join(texts.values())
        where = write_schemas(tmp_path, version, whole)
        command = [kubeconform, "-strict", "-summary", "-output", "json"]
        command += ["-skip", "ServiceMonitor", "-kubernetes-version", f"{version}.0"]
        command += ["-schema-location", where]
        done = run(*command, given=whole)
        summary = json.loads(done.stdout)["summary"]
        assert done.returncode == 0 and summary["skipped"] == 4, done.stdout
        assert summary["valid"] == len(objects(whole)) - 4
        wrong = whole.replace("serviceName:", "servicName:", 1)
        assert run(*command, given=wrong).returncode == 1

    @pytest.mark.parametrize(
        ("flag", "detail"),
        [
            ("pipeline.graze=3", "graze"),
            ("networkPolicy.service[0].connector=telnet", "connector"),
            ("image.digest=sha256:1", "image.digest"),
            ("checkpoints=checkpoints", "checkpoints"),
            ("checkpoints=/var/lib/scstream/checkpoints", "existingClaim"),
        ],
    )
    def test_values_that_cannot_be_are_refused(self, flag: str, detail: str) -> None:
        with pytest.raises(ValueError, match=detail):
            rendered("--set", flag)

    def test_every_value_has_a_schema(self) -> None:
        """And no schema is without its value, so that the list of values is complete."""

        def agree(values: Any, schema: dict[str, Any], path: str) -> None:
            if "properties" in schema:
                assert set(values) == set(schema["properties"]) - {"global"}, path
                for key, each in values.items():
                    agree(each, schema["properties"][key], f"{path}.{key}")

        schema = json.loads((CHART / "values.schema.json").read_text())
        schema["properties"]["pipeline"]["properties"]["resources"].pop("properties")
        schema["properties"]["service"]["properties"]["resources"].pop("properties")
        agree(VALUES, schema, "")


class TestPods:
    @pytest.mark.parametrize("case", CASES)
    def test_they_can_do_little(self, case: str, texts: dict[str, str]) -> None:
        found = pods(texts[case])
        assert found
        for name, each in found.items():
            pod = each["spec"]
            assert pod["securityContext"]["runAsNonRoot"], name
            assert pod["securityContext"]["runAsUser"] == 10001, name
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
            assert pod["automountServiceAccountToken"] is False, name
            [container] = pod["containers"]
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"], name
            assert rights["allowPrivilegeEscalation"] is False, name
            assert rights["capabilities"] == {"drop": ["ALL"]}, name
            assert {"requests", "limits"} <= set(container["resources"]), name

    def test_the_image_is_this_version_or_the_digest(self, texts: dict[str, str]) -> None:
        for case, image in (
            ("default", f"scstream:{scstream.__version__}"),
            ("everything", f"scstream@{EVERYTHING['image']['digest']}"),  # type: ignore[index]
        ):
            assert {
                pod["spec"]["containers"][0]["image"] for pod in pods(texts[case]).values()
            } == {image}

    @pytest.mark.parametrize("case", CASES)
    def test_probes_and_mounts_are_of_what_there_is(self, case: str, texts: dict[str, str]) -> None:
        """Probes name no host: the kubelet sends them to the address of the pod."""
        for name, each in by_name(texts[case]).items():
            if "template" not in each.get("spec", {}):
                continue
            pod = each["spec"]["template"]["spec"]
            [container] = pod["containers"]
            ports = {port["name"] for port in container["ports"]}
            known = {"/metrics"} if name.endswith("-run") else {"/healthz", "/readyz"}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                request = container[probe]["httpGet"]
                assert set(request) == {"path", "port"}, name
                assert request["port"] in ports and request["path"] in known, name
            volumes = {volume["name"] for volume in pod["volumes"]}
            volumes |= {v["metadata"]["name"] for v in each["spec"].get("volumeClaimTemplates", [])}
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name

    def test_both_have_time_to_end(self, texts: dict[str, str]) -> None:
        """The service keeps answering for `drain` seconds, and a request may take 30 more."""
        found = pods(texts["default"])
        serve = found["Deployment scstream-serve"]["spec"]
        arguments = serve["containers"][0]["args"]
        drain = int(arguments[arguments.index("--drain") + 1])
        assert drain > 0 and serve["terminationGracePeriodSeconds"] > drain + 30
        assert found["StatefulSet scstream-run"]["spec"]["terminationGracePeriodSeconds"] >= 60

    def test_a_change_of_the_settings_restarts_the_pipeline(self, texts: dict[str, str]) -> None:
        def checksum(text: str) -> str:
            template = pods(text)["StatefulSet scstream-run"]
            found: str = template["metadata"]["annotations"]["checksum/settings"]
            return found

        other = rendered("--set", "pipeline.settings=job = 1")
        assert checksum(other) != checksum(texts["default"])


class TestParts:
    @pytest.mark.parametrize("case", CASES)
    def test_selectors_choose_the_pods_that_they_mean(
        self, case: str, texts: dict[str, str]
    ) -> None:
        labels = {name: each["metadata"]["labels"] for name, each in pods(texts[case]).items()}
        for name, each in by_name(texts[case]).items():
            if each["kind"] in ("ServiceMonitor", "HorizontalPodAutoscaler", "ConfigMap"):
                continue
            selector = each["spec"].get("podSelector", each["spec"].get("selector"))
            wanted = selector.get("matchLabels", selector)
            [chosen] = [pod for pod, own in labels.items() if wanted.items() <= own.items()]
            part = each["metadata"]["labels"]["app.kubernetes.io/component"]
            assert chosen.endswith(part), name

    def test_two_releases_do_not_choose_each_others_pods(self) -> None:
        other = pods(rendered(release="other"))
        ours = by_name(rendered())["Service scstream"]["spec"]["selector"]
        assert len(other) == 2
        for pod in other.values():
            assert not ours.items() <= pod["metadata"]["labels"].items()

    def test_a_standby_waits_by_the_lease(self, texts: dict[str, str]) -> None:
        alone = by_name(texts["default"])["StatefulSet scstream-run"]["spec"]
        both = by_name(texts["everything"])["StatefulSet scstream-run"]["spec"]
        assert (alone["replicas"], both["replicas"]) == (1, 2)
        assert "--standby" in both["template"]["spec"]["containers"][0]["args"]
        assert "PodDisruptionBudget scstream-run" in by_name(texts["everything"])
        assert "PodDisruptionBudget scstream-run" not in by_name(texts["default"])

    def test_the_autoscaler_alone_decides_on_replicas(self, texts: dict[str, str]) -> None:
        scaled, fixed = by_name(texts["default"]), by_name(texts["everything"])
        target = scaled["HorizontalPodAutoscaler scstream-serve"]["spec"]["scaleTargetRef"]
        assert "replicas" not in scaled[f"{target['kind']} {target['name']}"]["spec"]
        assert fixed["Deployment scstream-serve"]["spec"]["replicas"] == 3
        assert "HorizontalPodAutoscaler scstream-serve" not in fixed

    def test_every_connector_has_its_ports_and_nobody_reaches_the_metadata(
        self, texts: dict[str, str]
    ) -> None:
        rules = by_name(texts["everything"])["NetworkPolicy scstream-run"]["spec"]["egress"]
        ports = [{port["port"] for port in rule["ports"]} for rule in rules]
        assert ports == [
            {53},
            {4222},
            {9094},
            {6379, 6380},
            {5432},
            {6333, 6334},
            {4317, 4318},
            {443},
        ]
        blocks = [each["ipBlock"] for rule in rules for each in rule["to"] if "ipBlock" in each]
        wide = [each for each in blocks if each["cidr"] in ("0.0.0.0/0", "::/0")]
        assert len(wide) == 10 and all(each["except"] for each in wide)

    def test_a_monitor_finds_one_service_each_and_the_token(self, texts: dict[str, str]) -> None:
        found = by_name(texts["everything"])
        services = [each for each in found.values() if each["kind"] == "Service"]
        monitors = [each for each in found.values() if each["kind"] == "ServiceMonitor"]
        assert len(monitors) == 2
        for monitor in monitors:
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            [service] = [each for each in services if wanted <= each["metadata"]["labels"].items()]
            assert service["spec"]["clusterIP"] == "None"
            [endpoint] = monitor["spec"]["endpoints"]
            assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
            assert ("authorization" in endpoint) == (endpoint["port"] == "http")

    def test_the_service_reads_the_checkpoints_of_the_pipeline(self, texts: dict[str, str]) -> None:
        for case in ("default", "everything"):
            found = {
                name: pod["spec"]["containers"][0]["args"]
                for name, pod in pods(texts[case]).items()
            }
            run_args = found["StatefulSet scstream-run"]
            folder = run_args[run_args.index("--checkpoint") + 1]
            assert found["Deployment scstream-serve"][1] == folder
        assert "folder" not in tomllib.loads(VALUES["pipeline"]["settings"])["checkpoint"]
