# SPDX-License-Identifier: Apache-2.0
"""Keys of devices, and what they sign for their Connectors, by another implementation than ours."""
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PROOF = "spanwire.dev/key-proof"
CLASSES = "/apis/networking.datumapis.com/v1alpha1/connectorclasses"


class Key:
    def __init__(self, seed):
        self.secret = Ed25519PrivateKey.from_private_bytes(seed if isinstance(seed, bytes) else bytes([seed]) * 32)
        self.public = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = self.public.hex()

    def proof(self, obj, **other):
        """The annotation's value for a Connector; 'other' signs for another uid, namespace, name or version."""
        meta = obj["metadata"]
        version = int(other.get("version", meta["resourceVersion"]))
        text = [(other.get(k) or meta[k]).encode() for k in ("uid", "namespace", "name")]
        message = b"spanwire connector key proof v1\0" + b"".join(struct.pack(">H", len(t)) + t for t in text) \
            + self.public + struct.pack(">Q", version)
        return f"v1.{version}.{self.secret.sign(message).hex()}"

    def prove(self, api, path):
        """Signs for the Connector at path, as its device would."""
        meta = {"annotations": {PROOF: self.proof(api.get(path).json)}}
        answer = api.patch(path, {"metadata": meta})
        assert answer.status == 200, answer


def without_proof(api, name="datum-connect"):
    """Connectors of the class are made by hand, or their devices do not know proofs."""
    made = {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "ConnectorClass",
            "metadata": {"name": name, "annotations": {PROOF: "NotRequired"}},
            "spec": {"controllerName": "networking.datumapis.com/datum-connect"}}
    answer = api.patch(f"{CLASSES}/{name}", made, "apply", "?fieldManager=test&force=true")
    assert answer.status in (200, 201), answer
