use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use super::super::error::TransformError;
use super::jpeg;

/// The picture that a JPEG or PNG file holds, of no more than so many pixels.
pub(super) fn decode(file: &[u8], max_pixels: u64) -> Result<RgbImage, TransformError> {
    let format = image::guess_format(file).ok();
    let Some(format) = format.filter(|format| matches!(format, ImageFormat::Jpeg | ImageFormat::Png)) else {
        return Err(format!("its {} bytes begin like neither JPEG nor PNG", file.len()).into());
    };
    // The decoder fills up what is missing, and says nothing.
    if format == ImageFormat::Jpeg && !jpeg::is_whole(file) {
        return Err(format!("its {} bytes end before the JPEG does", file.len()).into());
    }
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    reader.limits(limits(max_pixels));
    let decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 || pixels > max_pixels {
        return Err(format!("it has {width} x {height} pixels, which are none or more than {max_pixels}").into());
    }
    Ok(DynamicImage::from_decoder(decoder)?.into_rgb8())
}

/// Sides are bounded, too: a side alone decides how much memory a row takes.
fn limits(max_pixels: u64) -> Limits {
    const BYTES_A_PIXEL: u64 = 8;
    const BESIDES: u64 = 16 << 20;
    let side = u32::try_from(max_pixels).unwrap_or(u32::MAX);
    let mut limits = Limits::default();
    limits.max_image_width = Some(side);
    limits.max_image_height = Some(side);
    limits.max_alloc = Some(max_pixels.saturating_mul(BYTES_A_PIXEL).saturating_add(BESIDES));
    limits
}
