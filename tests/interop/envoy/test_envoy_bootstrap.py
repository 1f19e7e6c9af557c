# SPDX-License-Identifier: Apache-2.0
"""Everything 'spanwire envoy bootstrap' can print is a configuration that Envoy takes, without a word of complaint."""
import pytest
from harness.envoy import bootstrap, validate
from harness.fabric import make_cert


@pytest.mark.parametrize("flags", [
    [], ["--xds-addr", "control.example:15012"], ["--xds-addr", "[fd00::1]:15012", "--admin", "[::1]:19000"],
    ["--node-id", "a b 'c' \"d\": e", "--node-cluster", "#x"],
    ["--ca", "{crt}"], ["--ca", "{crt}", "--xds-addr", "control.example:15012"],
    ["--ca", "{crt}", "--server-name", "10.0.0.1"],
    ["--ca", "{crt}", "--cert", "{crt}", "--key", "{key}", "--server-name", "control.example", "--token-file", "{token}"],
], ids=lambda flags: " ".join(f.strip("-{}") for f in flags) or "nothing")
def test_envoy_takes_the_bootstrap(binary, interop_dir, tmp_path, flags):
    crt, key = make_cert(tmp_path, "control.example")
    (tmp_path / "token").write_text("s3cret\n", encoding="ascii")
    flags = [f.format(crt=crt, key=key, token=tmp_path / "token") for f in flags]
    (tmp_path / "boot.yaml").write_text(bootstrap(binary, *flags), encoding="utf-8")
    status, said = validate(interop_dir / "envoy", tmp_path / "boot.yaml")
    assert status == 0, said
    assert "warning" not in said and "deprecated" not in said.lower(), said
