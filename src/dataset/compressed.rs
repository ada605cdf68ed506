/// The program that unpacks a file that begins so, by the magic numbers of the formats people keep shards in.
pub(crate) fn compressed(head: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 5] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (b"BZh", "bzip2"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
    ];
    MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, name)| *name)
}
