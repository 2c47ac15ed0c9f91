# SPDX-License-Identifier: MIT
"""Files as torch.save writes them, written without torch: for tests of what reads them.

A pickle is built from the pieces below, in protocol 2; `storage` and `tensor` give those
that torch gives.
"""

import json
import struct
import zipfile

STOP = b"."
NONE = b"N"
EMPTY_DICT = b"}"
EMPTY_TUPLE = b")"
REDUCE = b"R"
FLOATS = "torch FloatStorage"


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def whole(value):
    return b"J" + struct.pack("<i", value)


def global_name(path):
    return b"c" + path.replace(" ", "\n").encode() + b"\n"


def together(*pieces):
    return b"(" + b"".join(pieces) + b"t"


def storage(key, count, kind=FLOATS):
    return together(text("storage"), global_name(kind), text(key), text("cpu"),
                    whole(count)) + b"Q"


def tensor(stored, shape, strides=None, offset=0):
    if strides is None:
        strides, step = [], 1
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
    return (global_name("torch._utils _rebuild_tensor_v2")
            + together(stored, whole(offset), together(*map(whole, shape)),
                       together(*map(whole, strides)), b"\x89",
                       global_name("collections OrderedDict") + EMPTY_TUPLE + REDUCE)
            + REDUCE)


def dictionary(items):
    return EMPTY_DICT + b"(" + b"".join(text(k) + v for k, v in items) + b"u"


def write(path, value, storages, compression=zipfile.ZIP_STORED, byteorder=b"little"):
    """`value`: the pieces of a pickle without its beginning and end; `storages`: key ->
    bytes."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("model/data.pkl", b"\x80\x02" + value + STOP)
        archive.writestr("model/byteorder", byteorder)
        for key, data in storages.items():
            archive.writestr(f"model/data/{key}", data)
        archive.writestr("model/version", b"3\n")


def write_state(path, state, kind=FLOATS, item_bytes=4):
    """`state`: key -> (shape, bytes)."""
    items = [(key, tensor(storage(str(i), len(data) // item_bytes, kind), shape))
             for i, (key, (shape, data)) in enumerate(state.items())]
    write(path, dictionary(items),
          {str(i): data for i, (_, data) in enumerate(state.values())})


def read_safetensors(path):
    """name -> (shape, bytes); all float32 or all int64, as they are."""
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    return {name: (info["shape"], data[end + info["data_offsets"][0]:
                                       end + info["data_offsets"][1]])
            for name, info in header.items() if name != "__metadata__"}
