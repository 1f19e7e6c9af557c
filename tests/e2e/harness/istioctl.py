# SPDX-License-Identifier: Apache-2.0
"""Reads /config_dump as `istioctl ztunnel-config` does: the same fields, types and look-ups, and a
failure where its decoder would fail."""
import datetime
import json


def _text(obj, key, optional=False):
    value = obj.get(key, "" if optional else None)
    if optional and value is None:
        value = ""
    if not isinstance(value, str):
        raise TypeError(f"{key}: {value!r} is not a string")
    return value


def _texts(obj, key):
    values = obj.get(key) or []
    assert all(isinstance(v, str) for v in values), (key, values)
    return values


def _numbers(obj, key):
    """A map of numbers by number, as JSON has them."""
    return {int(k): int(v) for k, v in obj.get(key, {}).items()}


class Dump:
    """Tables of a dump, a tuple for each row."""

    def __init__(self, text):
        self.raw = json.loads(text)
        for key in ("workloads", "services", "policies", "certificates"):
            assert isinstance(self.raw[key], list), key
        assert isinstance(self.raw["workloadState"], dict)

    def _waypoint(self, obj):
        """The name of the service that the reference leads to."""
        if not obj.get("waypoint"):
            return "None"
        wanted = _text(obj["waypoint"], "destination")
        for svc in self.raw["services"]:
            if wanted == f"{svc['namespace']}/{svc['hostname']}" or wanted in svc["vips"]:
                return svc["name"]
        return "NA"

    def workloads(self):
        rows = []
        for w in self.raw["workloads"]:
            assert isinstance(w["capacity"], int) and isinstance(w.get("locality", {}), dict)
            for key in ("uid", "status", "workloadType", "clusterId"):
                _text(w, key)
            address = ",".join(_texts(w, "workloadIps")) or _text(w, "hostname", True)
            rows.append((_text(w, "namespace"), _text(w, "name"), address, _text(w, "node", True),
                         self._waypoint(w), _text(w, "protocol")))
        return sorted(rows)

    def services(self):
        by_uid = {w["uid"]: w for w in self.raw["workloads"]}
        rows = []
        for s in self.raw["services"]:
            _numbers(s, "ports")
            ends = s["endpoints"]
            for end in ends.values():
                _numbers(end, "port")
            good = sum(by_uid.get(_text(e, "workloadUid"), {}).get("status") == "Healthy"
                       for e in ends.values())
            vips = ",".join(v.partition("/")[2] for v in _texts(s, "vips"))
            rows.append((_text(s, "namespace"), _text(s, "name"), vips, self._waypoint(s),
                         f"{good}/{len(ends)}"))
        return sorted(rows)

    def policies(self):
        for p in self.raw["policies"]:
            assert all(isinstance(m, dict) for rule in p["rules"] for clause in rule for m in clause)
        return sorted((_text(p, "namespace"), _text(p, "name"), _text(p, "action"), _text(p, "scope"))
                      for p in self.raw["policies"])

    def certificates(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        rows = []
        for entry in self.raw["certificates"]:
            state = "Unavailable" if "Unavailable" in entry["state"] else entry["state"]
            chain = [("Intermediate" if i else "Leaf", c) for i, c in enumerate(entry["certChain"])]
            for kind, cert in chain + [("Root", c) for c in entry["rootCerts"]]:
                start, end = (datetime.datetime.fromisoformat(cert[k].replace("Z", "+00:00"))
                              for k in ("validFrom", "expirationTime"))
                rows.append((entry["identity"], kind, state, start <= now <= end,
                             int(cert["serialNumber"], 10)))
        return rows

    def _named(self, addr):
        """The address, by the name of the service or workload that has it first."""
        ip, _, port = addr.rpartition(":")
        for svc in self.raw["services"]:
            if svc["vips"] and svc["vips"][0].partition("/")[2] == ip:
                return f"{svc['hostname']}:{port}"
        for w in self.raw["workloads"]:
            if w["workloadIps"] and w["workloadIps"][0] == ip:
                return f"{w['name']}.{w['namespace']}:{port}"
        return addr

    def connections(self):
        rows = []
        for state in self.raw["workloadState"].values():
            info = state["info"]
            name = f"{_text(info, 'name')}.{_text(info, 'namespace')}"
            for c in state["connections"]["inbound"]:
                rows.append((name, "Inbound", self._named(c["actualDst"]), self._named(c["src"]),
                             c["originalDst"], c["protocol"]))
            for c in state["connections"]["outbound"]:
                rows.append((name, "Outbound", self._named(c["src"]), self._named(c["actualDst"]),
                             self._named(c["originalDst"]), c["protocol"]))
        return rows
