# SPDX-License-Identifier: Apache-2.0
"""Every way to break a message by one field: cleared, doubled, or set to something unlikely."""
from google.protobuf.descriptor import FieldDescriptor as F

TEXTS = [("empty", ""), ("a line end", "a\nb"), ("a space", "a b"), ("a percent sign", "%")]
VALUES = {
    F.TYPE_STRING: TEXTS, F.TYPE_BYTES: [("empty", b"")], F.TYPE_ENUM: [("77", 77), ("0", 0)],
    F.TYPE_BOOL: [("true", True), ("false", False)],
    F.TYPE_UINT32: [(str(n), n) for n in (0, 101, 70000, 2**32 - 1)],
    F.TYPE_UINT64: [("0", 0), ("most", 2**64 - 1)], F.TYPE_DOUBLE: [("-1", -1.0), ("101", 101.0)],
    F.TYPE_INT32: [("0", 0), ("-1", -1)], F.TYPE_INT64: [("0", 0), ("-1", -1)],
}
WRAPPERS = {f"google.protobuf.{n}Value" for n in ("UInt32", "UInt64", "Bool", "Double", "String", "Int64")}
DURATIONS = [(0, 0), (-1, 0), (1, 2000000000), (400000000000, 0)]


class Mutations:
    """protos: Envoy's own definitions. Deterministic: the same message gives the same list."""

    def __init__(self, protos):
        self.protos = protos

    def of(self, message):
        """(path, what it does to which field of which type, function that does it in place)"""
        yield from self._fields(message, "")

    def _fields(self, m, path):
        for f, value in m.ListFields():
            of, at = f"{m.DESCRIPTOR.full_name}.{f.name}", f"{path}.{f.name}"
            yield at, f"{of} cleared", lambda m=m, f=f: m.ClearField(f.name)
            if f.label == F.LABEL_REPEATED:
                yield from self._many(m, f, value, of, at)
            elif f.message_type is None:
                for what, new in VALUES.get(f.type, ()):
                    yield at, f"{of} set to {what}", lambda m=m, f=f, new=new: setattr(m, f.name, new)
            elif f.message_type.full_name == "google.protobuf.Duration":
                for pair in DURATIONS:
                    yield at, f"{of} set to {pair}", lambda v=value, p=pair: (
                        setattr(v, "seconds", p[0]), setattr(v, "nanos", p[1]))
            elif f.message_type.full_name in WRAPPERS:
                kind = f.message_type.fields_by_name["value"].type
                for what, new in VALUES.get(kind, ()):
                    yield at, f"{of}.value set to {what}", lambda v=value, new=new: setattr(v, "value", new)
            else:
                yield from self._inside(value, at)

    def _many(self, m, f, values, of, at):
        if f.message_type is not None and f.message_type.GetOptions().map_entry:
            if f.message_type.fields_by_name["value"].message_type is not None:
                for key in sorted(values):
                    yield from self._inside(values[key], f"{at}[{key}]")
            return
        if f.message_type is not None:
            yield at, f"{of} doubled", lambda v=values: v.add().CopyFrom(v[0])
        else:
            yield at, f"{of} doubled", lambda v=values: v.append(v[0])
        for i, one in enumerate(values):
            if f.message_type is not None:
                yield from self._inside(one, f"{at}[{i}]")
                continue
            for what, new in VALUES.get(f.type, ()):
                yield f"{at}[{i}]", f"{of}[] set to {what}", lambda v=values, i=i, n=new: v.__setitem__(i, n)

    def _inside(self, m, path):
        if m.DESCRIPTOR.full_name != "google.protobuf.Any":
            yield from self._fields(m, path)
            return
        name = m.type_url.split("/")[-1]
        try:
            inner = self.protos.message(name).FromString(m.value)
        except KeyError:  # newer than the definitions
            return
        for at, what, change in self._fields(inner, f"{path}<{name.rsplit('.', 1)[-1]}>"):
            def both(change=change):
                change()
                m.value = inner.SerializeToString(deterministic=True)
            yield at, what, both
