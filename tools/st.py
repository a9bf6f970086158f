"""Reads and writes .safetensors with the standard library; tensors are (dtype, shape, array.array)."""
import array
import json
import os
import struct

CODES = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "U8": "B", "BOOL": "B"}


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, values)}, values a flat iterable of numbers."""
    header, blob = {}, bytearray()
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, values) in tensors.items():
        flat = values if isinstance(values, array.array) else array.array(CODES[dtype], values)
        if flat.typecode != CODES[dtype] or len(flat) != count(shape):
            raise ValueError(f"{name}: {len(flat)} values do not fill {dtype}{list(shape)}")
        start = len(blob)
        blob += flat.tobytes()
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, len(blob)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)
    os.replace(path + ".part", path)


def read(path):
    """{name: (dtype, shape, array)}"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, blob = json.loads(f.read(n)), f.read()
    tensors = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        values = array.array(CODES[t["dtype"]])
        values.frombytes(blob[t["data_offsets"][0] : t["data_offsets"][1]])
        tensors[name] = (t["dtype"], t["shape"], values)
    return tensors
