/// Whether a JPEG file goes on to its end-of-image marker. What stands behind that, and pictures within its header's
/// segments, do not count.
///
/// Source: ITU-T T.81 (JPEG), annex B.1.
pub(super) fn is_whole(file: &[u8]) -> bool {
    const END_OF_IMAGE: u8 = 0xd9;
    let mut rest = file;
    while let Some(at) = rest.windows(2).position(is_marker) {
        let Some((&[_, marker], behind)) = rest.get(at..).and_then(|from| from.split_first_chunk()) else { break };
        rest = match marker {
            END_OF_IMAGE => return true,
            // Start of image, and one for private use in arithmetic coding: they have no segment.
            0x01 | 0xd8 => behind,
            _ => {
                let Some((&len, _)) = behind.split_first_chunk() else { break };
                // The length counts itself.
                behind.get(usize::from(u16::from_be_bytes(len)).max(2)..).unwrap_or_default()
            }
        };
    }
    false
}

/// Not what stands for 0xff in coded data, a restart between its parts, or fill before a marker.
fn is_marker(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, marker] if !matches!(marker, 0x00 | 0xd0..=0xd7 | 0xff))
}
