"""Files of numpy.save and of safetensors, without their libraries."""

import json
import math


def npy(shape, descr="<f4", elements=None):
    """The bytes of a .npy file; `elements` are its data, zeros by default."""
    size = int(descr[2:])
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    return start + (elements or bytes(math.prod(shape) * size))


def safetensors(name, shape):
    """A file with one float32 tensor of zeros."""
    size = 4 * math.prod(shape)
    header = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)
