# SPDX-License-Identifier: Apache-2.0
"""The combinations of pieces: who is the control plane and the data plane of each of two sites."""
from dataclasses import dataclass

OURS, REAL, GO, ENVOY = "spanwire", "clusterlink", "go", "envoy"


@dataclass(frozen=True)
class Kind:
    """What a site is made of."""
    control: str
    plane: str

    @property
    def name(self):
        return "ours" if self == OWN else "theirs" if self == GO_SITE else f"{self.control}+{self.plane}"


@dataclass(frozen=True)
class Combo:
    east: Kind
    west: Kind

    @property
    def name(self):
        return f"{self.east.name}-{self.west.name}"

    @property
    def kinds(self):
        return self.east, self.west

    def planes(self):
        return {k.plane for k in self.kinds}


OWN, GO_SITE = Kind(OURS, OURS), Kind(REAL, GO)
MIXED = [Kind(OURS, GO), Kind(OURS, ENVOY), Kind(REAL, OURS), Kind(REAL, ENVOY)]
# Every kind of site beside one that is all ours, and beside one that is all ClusterLink's.
COMBOS = [Combo(OWN, OWN), Combo(GO_SITE, OWN), *(Combo(k, OWN) for k in MIXED), *(Combo(k, GO_SITE) for k in MIXED),
          Combo(GO_SITE, GO_SITE)]
