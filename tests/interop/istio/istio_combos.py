# SPDX-License-Identifier: Apache-2.0
"""The combinations of pieces: who is the control plane, the proxy of each of the two nodes, the node agent."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Combo:
    control: str
    nodes: tuple
    agent: str

    @property
    def proxy(self):
        return self.nodes[0] if len(set(self.nodes)) == 1 else "mixed"

    @property
    def name(self):
        return f"{self.control}-{self.proxy}-{self.agent}"

    def needs(self):
        """The programs of Istio that it takes."""
        return [*(["istiod"] if self.control == "istiod" else []), *(["ztunnel"] if "ztunnel" in self.nodes else []),
                *(["install-cni"] if self.agent == "istio" else [])]


PROXIES = (("spanwire", "spanwire"), ("spanwire", "ztunnel"), ("ztunnel", "ztunnel"))
COMBOS = [Combo(control, nodes, agent) for control in ("spanwire", "istiod") for nodes in PROXIES
          for agent in ("spanwire", "istio")]
