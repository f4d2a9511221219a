"""A test certificate authority, and its server certificates."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Its certificate is the file ``path``; `server` and `client` make contexts for both sides."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("an authority of the tests")
        made = _builder(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
        name = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        made = made.add_extension(name, critical=False)
        self.path = folder / "authority.pem"
        self.path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, *names: str, days: float = 1) -> Path:
        """A file with key and certificate of a server that is called ``names``, good for ``days`` from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.SubjectAlternativeName([_subject(name) for name in names])
        made = _builder(_name(names[0]), self._name, key.public_key(), days).add_extension(
            subject, critical=False
        )
        # Python 3.13 requires the authority key identifier.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(issuer, critical=False)
        path = self._folder / f"{names[0]}.pem"
        path.write_bytes(
            made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path

    def server(self, *names: str) -> ssl.SSLContext:
        """The side of a server that is called ``names``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(*names))
        return context

    def client(self) -> ssl.SSLContext:
        """The side of a client that trusts it alone."""
        return ssl.create_default_context(cafile=str(self.path))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _subject(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float = 1
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=90))
        .not_valid_after(now + datetime.timedelta(days=days))
    )
