use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

const BLOCK: u64 = 512;

/// Writes an archive of `members`: two a sample, of `bytes` and of one byte. Data of whole pages is left a hole, so that
/// large members need no disk.
pub fn write(path: &Path, members: u64, bytes: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let zeros = vec![0; bytes.next_multiple_of(BLOCK) as usize];
    for sample in 0..members / 2 {
        for (ext, size) in [("jpg", bytes), ("cls", 1)] {
            out.write_all(&header(&format!("train/{sample:08}.{ext}"), size))?;
            let padded = size.next_multiple_of(BLOCK);
            match padded < 16 << 10 {
                true => out.write_all(&zeros[..padded as usize])?,
                false => drop(out.seek(SeekFrom::Current(padded as i64))?),
            }
        }
    }
    out.write_all(&[0; 2 * BLOCK as usize])?;
    out.flush()
}

fn header(name: &str, size: u64) -> [u8; BLOCK as usize] {
    let mut block = [0; BLOCK as usize];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\x000001750\x000001750\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"14512543340\0        0");
    put(257, b"ustar\x0000user");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
