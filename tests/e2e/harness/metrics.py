# SPDX-License-Identifier: Apache-2.0
"""Readers of what a node says about itself: Prometheus text and log lines."""
import json
import re

_SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?$')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_FIELD = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)')


class Metrics:
    """Samples as (name, labels, value)."""

    def __init__(self, text):
        self.text = text
        self.samples = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            m = _SAMPLE.match(line)
            assert m, f"not a metric line: {line!r}"
            labels = dict(_LABEL.findall(m.group(2) or ""))
            self.samples.append((m.group(1), labels, float(m.group(3))))

    def find(self, name, **labels):
        return [(got, value) for n, got, value in self.samples
                if n == name and all(got.get(k) == v for k, v in labels.items())]

    def sum(self, name, **labels):
        return sum(value for _, value in self.find(name, **labels))

    def names(self):
        return {n for n, _, _ in self.samples}


class LogLine:
    """One log line, from either format."""

    def __init__(self, time, level, scope, message, fields, span=""):
        self.time, self.level, self.scope = time, level, scope
        self.message, self.fields, self.span = message, fields, span

    def __getitem__(self, key):
        return self.fields[key]

    def get(self, key, default=None):
        return self.fields.get(key, default)

    def __repr__(self):
        return f"<{self.level} {self.scope} {self.message} {self.fields}>"


def _unquote(text):
    return json.loads(text) if text.startswith('"') else text


def parse_log(line):
    """A LogLine, or None for anything else (a sanitizer's words, a start-up error)."""
    if line.startswith("{"):
        try:
            value = json.loads(line)
        except ValueError:
            return None
        known = {k: value.pop(k, "") for k in ("time", "level", "scope", "message")}
        flat = {}
        for key, item in value.items():
            if isinstance(item, dict):
                flat.update({k: str(v) for k, v in item.items()})
            else:
                flat[key] = str(item)
        return LogLine(**known, fields=flat)
    parts = line.split("\t")
    if len(parts) < 4:
        return None
    scope, _, span = parts[2].partition(":")
    fields = {k: _unquote(v) for k, v in _FIELD.findall(parts[4])} if len(parts) > 4 else {}
    return LogLine(parts[0], parts[1].strip().lower(), scope, parts[3], fields, span)
