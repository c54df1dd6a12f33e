"""Certificates and passwords of a Kafka broker for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers import ServerFailed, program

USER, PASSWORD = "ana", "correct horse"
_MODULE = "org.apache.kafka.common.security"


class Security:
    """Listeners SSL, where clients have certificates, and SASL_SSL, where they have passwords.

    Clients of the listener PLAINTEXT may do everything, those of the others only what they are
    permitted: `USER`, by password or by certificate, may use topics whose names do not begin with
    "secret".
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make a certificate authority, and certificates of the broker and of a client."""
        if (self.folder / "client.pem").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=tests"),
            *("-keyout", "authority.key", "-out", "authority.crt"),
        )
        for name in ("broker", "client"):
            person = {"broker": "localhost", "client": USER}[name]
            self._openssl(
                *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
                *("-subj", f"/CN={person}", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-addext", "basicConstraints=CA:FALSE"),
                *("-CA", "authority.crt", "-CAkey", "authority.key"),
                *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
            )
            parts = [(self.folder / f"{name}.{end}").read_text() for end in ("key", "crt")]
            (self.folder / f"{name}.pem").write_text("".join(parts))

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            [program("openssl", "apt install openssl"), *arguments],
            cwd=self.folder,
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode:
            raise ServerFailed(f"openssl failed:\n{done.stderr}")

    def format_options(self) -> list[str]:
        """Options for the storage of a broker that make it know the password by SCRAM."""
        return ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"]

    def settings(self) -> dict[str, object]:
        """Settings of a broker."""
        plain = f'{_MODULE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        listener = "listener.name.sasl_ssl"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.folder / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.folder / "authority.crt",
            "listener.name.ssl.ssl.client.auth": "required",
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{listener}.plain.sasl.jaas.config": plain,
            f"{listener}.scram-sha-256.sasl.jaas.config": (
                f"{_MODULE}.scram.ScramLoginModule required;"
            ),
            "ssl.principal.mapping.rules": r"RULE:^CN=(.*?)$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def by_password(self, mechanism: str, *, password: str = PASSWORD) -> dict[str, str]:
        """Options of a client of the listener SASL_SSL."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.folder / "authority.crt"),
        }

    def by_certificate(self) -> dict[str, str]:
        """Options of a client of the listener SSL."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "authority.crt"),
            "ssl.certificate.location": str(self.folder / "client.crt"),
            "ssl.key.location": str(self.folder / "client.key"),
        }
