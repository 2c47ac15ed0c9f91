# SPDX-License-Identifier: MIT
"""docs/api_reference.md: services, messages and enumerations, from proto/mnemon/v1."""

import pathlib
import re
import subprocess
import tempfile
import textwrap

from google.protobuf import descriptor_pb2

PACKAGE = "mnemon.v1"
FILES = ("generation", "sessions", "sampling", "models", "admin")  # in this order
LIMIT = 60  # seconds that protoc may take
COLUMNS = 100

# Numbers of fields in google/protobuf/descriptor.proto, of which the paths of comments consist.
_MESSAGE, _ENUM, _SERVICE, _SYNTAX = 4, 5, 6, 12
_FIELD, _NESTED, _NESTED_ENUM, _ONEOF = 2, 3, 4, 8

_HEAD = """\
# API reference

Every method, message and field of `proto/mnemon/v1`, with its comment there. Written by
`scripts/docs`; do not edit. [The API for callers](api.md) says what holds for all calls. The number
after a field is that of the wire; *optional* means that an absent field differs from one that is
zero.
"""


def _compiled(root):
    """The files of the API as descriptors with their comments, by name."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "api.binpb"
        subprocess.run(
            ["protoc", f"-I{root / 'proto'}", "--include_source_info",
             f"--descriptor_set_out={out}", *(f"mnemon/v1/{name}.proto" for name in FILES)],
            check=True, timeout=LIMIT)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    return [next(file for file in files if file.name.endswith(f"/{name}.proto"))
            for name in FILES]


def _blocks(text):
    """Paragraphs and items of lists in a comment, as (whether it is an item, text)."""
    blocks, ended = [], True
    for line in text.splitlines():
        line = line.removeprefix(" ")
        item = line.startswith("- ")
        if not line.strip():
            ended = True
        elif ended or item or (blocks[-1][0] and not line.startswith(" ")):
            blocks.append((item, line))
            ended = False
        else:
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]} {line.strip()}")
    return blocks


def _escaped(text):
    """What Markdown would take for markup, outside code."""
    return "".join(part if part.startswith("`") else re.sub(r"([*<>])", r"\\\1", part)
                   for part in re.split(r"(`[^`]*`)", text))


def _wrapped(text, indent=0):
    """A comment as Markdown: its paragraphs and lists, with lines filled anew."""
    lines = []
    lead = " " * indent
    for item, block in _blocks(text):
        if lines and not item:
            lines.append("")
        filled = textwrap.wrap(_escaped(block), COLUMNS - indent,
                               subsequent_indent="  " if item else "",
                               break_long_words=False, break_on_hyphens=False)
        # A line that begins like an item of a list would be one.
        lines += [lead + line if at == 0 else lead + re.sub(r"^( *)([-+#=])", r"\1\\\2", line)
                  for at, line in enumerate(filled)]
    return lines


class _File:
    """One .proto file, written section by section."""

    def __init__(self, file):
        self.file = file
        self.comments = {tuple(place.path): place for place in file.source_code_info.location}

    def comment(self, *path):
        place = self.comments.get(path)
        return place.leading_comments + place.trailing_comments if place else ""

    def title(self):
        """What the file's head says, without its licence."""
        place = self.comments[(_SYNTAX,)]
        blocks = [*place.leading_detached_comments, place.leading_comments]
        return "\n\n".join(block for block in blocks if block).replace(
            " SPDX-License-Identifier: MIT\n", "")

    def section(self):
        name = pathlib.PurePosixPath(self.file.name).name
        lines = ["", f"## {name}", "", *_wrapped(self.title())]
        for at, service in enumerate(self.file.service):
            lines += self._service(service, (_SERVICE, at))
        for at, message in enumerate(self.file.message_type):
            lines += self._message(message, (_MESSAGE, at), "")
        for at, enum in enumerate(self.file.enum_type):
            lines += self._enum(enum, (_ENUM, at), "")
        return lines

    def _service(self, service, path):
        lines = ["", f"### Service {service.name}"]
        lines += self._described(path)
        for at, method in enumerate(service.method):
            takes, gives = (
                ("stream of " if streams else "") + _link(kind)
                for streams, kind in ((method.client_streaming, method.input_type),
                                      (method.server_streaming, method.output_type)))
            lines += ["", f"#### {service.name}.{method.name}", "",
                      f"{takes} → {gives}", *self._described((*path, 2, at))]
        return lines

    def _message(self, message, path, above):
        name = above + message.name
        lines = ["", f"### {name}", *self._described(path), ""]
        oneofs = {}
        for at, field in enumerate(message.field):
            real = field.HasField("oneof_index") and not field.proto3_optional
            if real and field.oneof_index not in oneofs:
                oneof = oneofs[field.oneof_index] = message.oneof_decl[field.oneof_index].name
                lines += self._item(f"One of `{oneof}`", (*path, _ONEOF, field.oneof_index), 0)
            lines += self._item(f"`{field.name}` {_kind(field)}, {field.number}",
                                (*path, _FIELD, at), 2 if real else 0)
        if not message.field:
            lines.append("No fields.")
        for at, enum in enumerate(message.enum_type):
            lines += self._enum(enum, (*path, _NESTED_ENUM, at), f"{name}.")
        for at, nested in enumerate(message.nested_type):
            lines += self._message(nested, (*path, _NESTED, at), f"{name}.")
        return lines

    def _enum(self, enum, path, above):
        lines = ["", f"### {above}{enum.name}", *self._described(path), ""]
        for at, value in enumerate(enum.value):
            lines += self._item(f"`{value.name}` = {value.number}", (*path, 2, at), 0)
        return lines

    def _described(self, path):
        text = self.comment(*path)
        return ["", *_wrapped(text)] if text else []

    def _item(self, head, path, indent):
        text = self.comment(*path)
        bullet = " " * indent + "- " + head
        if not text:
            return [bullet]
        # The links of a head are longer than a line may be: its text begins on the next one.
        return [bullet + "\\", *_wrapped(text, indent + 2)]


def _anchor(name):
    return re.sub(r"[^a-z0-9_-]", "", name.lower().replace(" ", "-"))


def _link(type_name):
    name = type_name.lstrip(".")
    own = name.removeprefix(PACKAGE + ".")
    return f"`{name}`" if own == name else f"[{own}](#{_anchor(own)})"


def _kind(field):
    label = ""
    if field.label == field.LABEL_REPEATED:
        label = "repeated "
    elif field.proto3_optional:
        label = "*optional* "
    if field.type_name:
        return label + _link(field.type_name)
    name = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    return label + name.removeprefix("TYPE_").lower()


def page(root):
    """The text of the page, for the sources in `root`."""
    files = [_File(file) for file in _compiled(root)]
    lines = [_HEAD]
    for one in files:
        for service in one.file.service:
            methods = ", ".join(f"[{method.name}](#{_anchor(f'{service.name}.{method.name}')})"
                                for method in service.method)
            lines += textwrap.wrap(
                f"- [{service.name}](#{_anchor(f'Service {service.name}')}): {methods}", COLUMNS,
                subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    for one in files:
        lines += one.section()
    return "\n".join(lines) + "\n"
