use image::RgbImage;
use image::imageops::{self, FilterType};

use super::super::error::TransformError;
use super::super::fields::Channels;
use super::part::Part;

/// That part of the picture, of that width and height.
pub(super) fn resized(
    picture: RgbImage,
    part: Part,
    (width, height): (u32, u32),
    max_pixels: u64,
) -> Result<RgbImage, TransformError> {
    if part == Part::all((width, height)) && picture.dimensions() == (width, height) {
        return Ok(picture);
    }
    // What is between the two passes, rows first, is as wide as the part and as high as what comes out.
    if u64::from(part.width) * u64::from(height) > max_pixels {
        let what = format!("a part of {} x {} pixels is too wide to be resized", part.width, part.height);
        return Err(what.into());
    }
    let part_of = imageops::crop_imm(&picture, part.x, part.y, part.width, part.height);
    if (part.width, part.height) == (width, height) {
        return Ok(part_of.to_image());
    }
    Ok(imageops::resize(&*part_of, width, height, FilterType::Triangle))
}

/// The picture's bytes in the order that is asked for.
pub(super) fn fill(row: &mut [u8], picture: &RgbImage, channels: Channels, flipped: bool) {
    let (width, bytes) = (picture.width() as usize, picture.as_raw());
    if width == 0 {
        return;
    }
    let lines = bytes.chunks_exact(width.saturating_mul(3));
    match channels {
        Channels::Last => {
            for (to, from) in row.chunks_exact_mut(width.saturating_mul(3)).zip(lines) {
                match flipped {
                    false => to.copy_from_slice(from),
                    true => {
                        let mirrored = from.chunks_exact(3).rev();
                        to.chunks_exact_mut(3).zip(mirrored).for_each(|(to, from)| to.copy_from_slice(from));
                    }
                }
            }
        }
        Channels::First => {
            let plane = bytes.len() / 3;
            for (channel, plane) in row.chunks_exact_mut(plane.max(1)).enumerate() {
                for (to, from) in plane.chunks_exact_mut(width).zip(lines.clone()) {
                    let values = from.iter().skip(channel).step_by(3);
                    match flipped {
                        false => to.iter_mut().zip(values).for_each(|(to, from)| *to = *from),
                        true => to.iter_mut().rev().zip(values).for_each(|(to, from)| *to = *from),
                    }
                }
            }
        }
    }
}
