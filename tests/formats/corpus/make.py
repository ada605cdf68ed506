"""Writes the corpus: files that break a rule of their format, each in the least form that does, sound ones that look odd, and
ones whose data is not what their checksums say.

Run in this folder; needs Python alone. The files are kept, so that tests need no Python; what a file is to show is in
its name.
"""

import io
import json
import os
import struct
import tarfile
import zipfile
import zlib

CRC_TABLE = []
for i in range(256):
    crc = i
    for _ in range(8):
        crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    CRC_TABLE.append(crc)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def put(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def make_safetensors():
    bad = lambda name, data: put("refused", f"safetensors-{name}.safetensors", data)
    good = lambda name, data: put("accepted", f"safetensors-{name}.safetensors", data)
    one = {"a": tensor("U8", [4], 0, 4)}
    bad("empty", b"")
    bad("seven-bytes", b"\0" * 7)
    bad("length-2-63", struct.pack("<Q", 1 << 63) + b"{}")
    bad("length-over-cap", struct.pack("<Q", 100_000_001) + b"{}")
    bad("length-past-end", struct.pack("<Q", 4096) + b"{}")
    bad("trailing-byte", safetensors(one, b"1234") + b"\0")
    bad("cut-by-one", safetensors(one, b"123"))
    bad("nul-padding", safetensors(json.dumps(one).encode() + b"\0\0", b"1234"))
    bad("deep-json", safetensors(b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"))
    bad("overlap", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, b"123456"))
    bad("alias", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 0, 4)}, b"1234"))
    bad("hole-at-start", safetensors({"a": tensor("U8", [4], 2, 6)}, b"123456"))
    bad("hole-in-middle", safetensors({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 4, 6)}, b"123456"))
    bad("offsets-reversed", safetensors({"a": tensor("U8", [4], 4, 0)}, b"1234"))
    bad("shape-larger-than-place", safetensors({"a": tensor("F32", [1000, 1000], 0, 4)}, b"1234"))
    bad("shape-overflows", safetensors({"a": tensor("F64", [1 << 33, 1 << 33], 0, 8)}, b"12345678"))
    bad("shape-negative", safetensors({"a": tensor("U8", [-1], 0, 1)}, b"1"))
    bad("odd-f4", safetensors({"a": tensor("F4", [3], 0, 2)}, b"12"))
    bad("unknown-dtype", safetensors({"a": tensor("Q9", [4], 0, 4)}, b"1234"))
    bad("two-of-one-name", safetensors(
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}', b"1234"))
    bad("metadata-not-text", safetensors(b'{"__metadata__":{"n":1}}'))
    bad("git-lfs-pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n")
    good("odd-header-length", safetensors(json.dumps(one).encode() + b" ", b"1234"))
    good("u8-before-f32", safetensors({"a": tensor("U8", [3, 1], 0, 3), "b": tensor("F32", [3, 1], 3, 15)}, b"x" * 15))
    good("names-that-climb", safetensors({"../a": tensor("U8", [1], 0, 1), "\xe4\n": tensor("U8", [1], 1, 2)}, b"12"))


def npy(header, data=b"", version=1):
    text = header.encode("utf-8" if version == 3 else "latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def describe(descr="'<f4'", order="False", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def make_npy():
    bad = lambda name, data: put("refused", f"npy-{name}.npy", data)
    good = lambda name, data: put("accepted", f"npy-{name}.npy", data)
    bad("magic-only", b"\x93NUMPY")
    bad("length-4-gib", b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFF0) + b"{}")
    bad("length-read-signed", b"\x93NUMPY\x01\x00" + struct.pack("<H", 0xFFF8) + b"{}")
    bad("version-9", b"\x93NUMPY\x09\x00" + struct.pack("<H", 2) + b"{}")
    bad("shape-overflows", npy(describe("'<f8'", shape="(8589934592, 8589934592)")))
    bad("shape-of-30-digits", npy(describe(shape="(" + "9" * 30 + ",)")))
    bad("shape-negative", npy(describe(shape="(-2,)"), b"x" * 8))
    bad("shape-no-tuple", npy(describe(shape="(2)"), b"x" * 8))
    bad("objects", npy(describe("'|O'"), b"\x80\x04N."))
    bad("structured", npy(describe("[('a', '<f4')]"), b"x" * 8))
    bad("big-endian", npy(describe("'>f4'"), b"x" * 8))
    bad("fortran-order", npy(describe(order="True", shape="(2, 3)"), b"x" * 24))
    bad("cut-by-one", npy(describe(), b"x" * 7))
    bad("trailing-byte", npy(describe(), b"x" * 9))
    bad("code-in-header", npy("__import__('os').abort()\n"))
    bad("key-missing", npy("{'descr': '<f4', 'shape': (2,), }\n", b"x" * 8))
    bad("no-dimension", npy(describe(shape="()"), b"x" * 4))
    good("fortran-order-of-one-row", npy(describe(order="True", shape="(1, 3)"), b"x" * 12))
    good("no-rows", npy(describe(shape="(0, 3)")))
    good("length-2l", npy(describe(shape="(2L,)"), b"x" * 8))


def make_npz():
    def archive(members, compression=zipfile.ZIP_STORED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as opened:
            for name, data in members:
                opened.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compression)
        return file.getvalue()

    bad = lambda name, data: put("refused", f"npz-{name}.npz", data)
    a = npy(describe(), b"x" * 8)
    sound = archive([("a.npy", a)])
    bad("compressed", archive([("a.npy", a)], zipfile.ZIP_DEFLATED))
    bad("two-of-one-name", archive([("a.npy", a), ("b.npy", a)]).replace(b"b.npy", b"a.npy"))
    bad("rows-differ", archive([("a.npy", a), ("b.npy", npy(describe(shape="(3,)"), b"x" * 12))]))
    bad("size-of-4-gib", sound.replace(struct.pack("<II", len(a), len(a)), struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)))
    bad("directory-cut", sound[:-30])
    bad("no-members", archive([]))
    put("accepted", "npz-name-that-climbs.npz", archive([("../../a.npy", a)]))
    b = npy(describe(), b"y" * 8)
    put("damaged", "npz-last-row.npz", archive([("a.npy", a), ("b.npy", b)]).replace(b"yyyyyyyy", b"yyyyyyyz"))
    put("damaged", "npz-space-of-a-header.npz", archive([("a.npy", a)]).replace(b", }\n", b",\t}\n"))


def header(name, size, kind=b"0", magic=b"ustar\x0000"):
    block = bytearray(512)
    block[0:len(name)] = name
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = b"0000000\0"
    block[124:136] = size if isinstance(size, bytes) else b"%011o\0" % size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:257 + len(magic)] = magic
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def member(name, data, kind=b"0"):
    return header(name, len(data), kind) + data + b"\0" * (-len(data) % 512)


def link(name, target, kind=b"2"):
    block = bytearray(header(name, 0, kind))
    block[157:157 + len(target)] = target
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(**records):
    text = b""
    for key, value in records.items():
        body = b" %s=%s\n" % (key.encode(), value)
        length = len(body) + 1
        while len(b"%d" % length) + len(body) != length:
            length += 1
        text += b"%d" % length + body
    return member(b"pax", text, b"x")


END = b"\0" * 1024


def make_tar():
    bad = lambda name, data: put("refused", f"tar-{name}.tar", data)
    good = lambda name, data: put("accepted", f"tar-{name}.tar", data)
    a = member(b"000.jpg", b"x" * 700)
    bad("cut-in-member", a[:900])
    bad("cut-in-header", a + a[:100])
    bad("checksum", a.replace(b"000.jpg", b"001.jpg") + END)
    bad("size-2-95", header(b"a.x", b"\x80" + b"\xff" * 11) + END)
    bad("size-negative", header(b"a.x", b"\xff" * 12) + END)
    bad("long-name-of-4-gib", header(b"././@LongLink", 0xFFFFFFFF, b"L") + b"x" * 512 + END)
    bad("pax-of-8-gib", header(b"pax", (1 << 33) - 1, b"x") + b"x" * 512 + END)
    bad("pax-size-no-number", pax(size=b"abc") + a + END)
    bad("pax-length-lies", member(b"pax", b"999 path=a\n", b"x") + a + END)
    bad("sparse-gnu", header(b"a.x", 512, b"S") + b"x" * 512 + END)
    bad("sparse-pax", pax(**{"GNU.sparse.major": b"1", "GNU.sparse.minor": b"0"}) + a + END)
    bad("member-twice", member(b"a.x", b"1") + member(b"a.x", b"2") + END)
    bad("gzip", zlib.compressobj(wbits=31).compress(a) + b"\x1f\x8b")
    good("pax-size-and-long-name", pax(size=b"700") + member(b"././@LongLink", b"long/" + b"n" * 120 + b".jpg\0", b"L")
         + header(b"short.jpg", 0) + b"x" * 1024 + member(b"next.txt", b"12345678") + END)
    good("no-end", a)
    good("names-that-climb", member(b"../../etc/a.x", b"1") + member(b"/etc/b.x", b"2") + END)
    good("links-and-folders", member(b"a/", b"", b"5") + header(b"l.x", 0, b"2") + a + END)
    hard = lambda name, target: link(name, target, b"1")
    good("hard-and-symbolic-links", hard(b"1.later", b"000.jpg") + a + hard(b"1.x", b"./000.jpg") + link(b"d/1.x", b"../1.x") + END)
    good("links-in-a-circle", link(b"a.x", b"b.x") + link(b"b.x", b"a.x") + hard(b"c.x", b"c.x") + a + END)
    good("apple-double", member(b"d/._0.jpg", b"junk") + member(b"__MACOSX/0.jpg", b"junk") + a + END)
    good("joined-behind-padding", a + END + b"\0" * 512 * 40 + member(b"1.jpg", b"1") + END)
    good("junk-behind-the-end", a + END + b"\xff" * 700)
    bad("joined-behind-junk", a + END + b"\xff" * 512 + member(b"1.jpg", b"1") + END)
    bad("two-link-names", member(b"l", b"a\0", b"K") + member(b"l", b"b\0", b"K") + hard(b"1.x", b"000.jpg") + a + END)
    bad("link-path-with-nul", pax(linkpath=b"a\0b") + hard(b"1.x", b"000.jpg") + a + END)
    bad("record-before-the-end", pax(path=b"b.x") + END + a + END)
    good("name-that-is-no-text", member(b"\xff\xfe.x", b"1") + END)
    good("interleaved", b"".join(member(name, b"1") for name in [b"0.a", b"1.a", b"0.b", b"1.b"]) + END)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def make_tfrecord():
    bad = lambda name, data: put("refused", f"tfrecord-{name}.tfrecord", data)
    one = record(b"123456789")
    for cut in [4, 10, 15, 23]:
        bad(f"cut-at-{cut}", one + one[:cut])
    bad("length-crc", one[:8] + b"\0\0\0\0" + one[12:])
    huge = struct.pack("<Q", 1 << 63)
    bad("length-2-63", one + huge + struct.pack("<I", masked_crc(huge)) + b"123")
    bad("gzip", zlib.compressobj(wbits=31).compress(one) + b"\x1f\x8b")
    put("accepted", "tfrecord-empty-record.tfrecord", record(b"") + one)
    put("damaged", "tfrecord-data.tfrecord", one + one.replace(b"5", b"4"))
    put("damaged", "tfrecord-checksum-of-nothing.tfrecord", one + record(b"")[:-1] + b"x")


def make_megatron():
    def idx(dtype=8, lengths=(2, 2), pointers=(0, 4), documents=(0, 1, 2), magic=b"MMIDIDX\0\0", version=1, counts=None):
        sequences, docs = counts or (len(lengths), len(documents))
        return (magic + struct.pack("<QBQQ", version, dtype, sequences, docs) + struct.pack(f"<{len(lengths)}i", *lengths)
                + struct.pack(f"<{len(pointers)}q", *pointers) + struct.pack(f"<{len(documents)}q", *documents))

    def pair(folder, name, index, tokens=b"\1\0" * 4):
        put(folder, f"megatron-{name}.idx", index)
        put(folder, f"megatron-{name}.bin", tokens)

    pair("accepted", "sound", idx())
    pair("refused", "version-2", idx(version=2))
    pair("refused", "unknown-dtype", idx(dtype=99))
    pair("refused", "length-negative", idx(lengths=(2, -2)))
    pair("refused", "pointer-past-end", idx(pointers=(0, 1 << 40)))
    pair("refused", "count-2-61", idx(counts=(1 << 61, 3)))
    pair("refused", "documents-fall", idx(documents=(0, 2, 1)))
    pair("refused", "tokens-cut", idx(), b"\1\0" * 3)


make_safetensors()
make_npy()
make_npz()
make_tar()
make_tfrecord()
make_megatron()
