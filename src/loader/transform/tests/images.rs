use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage, RgbaImage};
use proptest::prelude::*;

use super::super::{Channels, DecodeImage, Fit};
use super::*;
use crate::dataset::DType;

/// A picture in which every pixel tells where it is.
fn places(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, (x * 7 + y * 31) as u8]))
}

fn png(picture: impl Into<DynamicImage>) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.into().write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

fn jpeg(picture: &RgbImage) -> Vec<u8> {
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, 95).encode_image(picture).unwrap();
    file
}

/// The checksum of a PNG's chunk (annex D of its specification).
fn crc(chunk: &[u8]) -> u32 {
    let shifted = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !chunk.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shifted(crc)))
}

fn decoded(transform: &DecodeImage, name: &str, file: &[u8], index: u64) -> Result<Vec<u8>, TransformError> {
    let done = run_as(transform, &[(TensorSpec::new(name, DType::U8, [file.len() as u64]), file)], index, 0, 0)?;
    Ok(done[0].1.clone())
}

#[test]
fn a_picture_of_the_size_asked_for_is_what_was_stored_in_either_order() {
    let picture = places(13, 7);
    let file = png(picture.clone());
    let transform = DecodeImage::new(7, 13);
    let done = run(&transform, &[(TensorSpec::new("png", DType::U8, [file.len() as u64]), &file)]).unwrap();
    assert_eq!(done, [(TensorSpec::new("image", DType::U8, [7, 13, 3]), picture.as_raw().clone())]);
    let planes = decoded(&transform.channels(Channels::First), "png", &file, 0).unwrap();
    for (i, value) in planes.iter().enumerate() {
        let (channel, y, x) = (i / 91, i % 91 / 13, i % 13);
        assert_eq!(*value, picture.get_pixel(x as u32, y as u32)[channel]);
    }
}

/// A PNG made by hand: its data stored, not compressed.
#[test]
fn a_png_is_decoded_as_its_format_says() {
    fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
        let content = [&kind[..], data].concat();
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(&content);
        file.extend(crc(&content).to_be_bytes());
    }
    // Two lines of two pixels, each line after its filter, which is none.
    let raw = [0, 1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, 11, 12];
    let (a, b) = raw.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    let mut zlib = vec![0x78, 0x01, 0x01, raw.len() as u8, 0, !(raw.len() as u8), 0xff];
    zlib.extend(raw);
    zlib.extend((b << 16 | a).to_be_bytes());
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &[0, 0, 0, 2, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
    chunk(&mut file, b"IDAT", &zlib);
    chunk(&mut file, b"IEND", &[]);
    let pixels = decoded(&DecodeImage::new(2, 2), "png", &file, 0).unwrap();
    assert_eq!(pixels, (1..=12).collect::<Vec<u8>>());
}

#[test]
fn gray_alpha_and_sixteen_bits_become_three_bytes() {
    let gray = png(GrayImage::from_raw(2, 1, vec![10, 200]).unwrap());
    assert_eq!(decoded(&DecodeImage::new(1, 2), "png", &gray, 0).unwrap(), [10, 10, 10, 200, 200, 200]);
    let alpha = png(RgbaImage::from_raw(2, 1, vec![1, 2, 3, 0, 4, 5, 6, 255]).unwrap());
    assert_eq!(decoded(&DecodeImage::new(1, 2), "png", &alpha, 0).unwrap(), [1, 2, 3, 4, 5, 6]);
    let deep = DynamicImage::ImageRgb16(image::ImageBuffer::from_raw(1, 1, vec![0, 65535, 257 * 77]).unwrap());
    assert_eq!(decoded(&DecodeImage::new(1, 1), "png", &png(deep), 0).unwrap(), [0, 255, 77]);
}

/// A plane stays one under a triangle filter, and away from the borders so does its slope.
#[test]
fn a_jpeg_is_close_to_what_it_was_made_of_and_its_middle_is_cut_out() {
    let plane = RgbImage::from_fn(320, 160, |x, y| Rgb([(x / 2) as u8, y as u8, 90]));
    let file = jpeg(&plane);
    let cut = decoded(&DecodeImage::new(40, 40), "jpg", &file, 0).unwrap();
    let all = decoded(&DecodeImage::new(40, 40).fit(Fit::Stretch), "jpg", &file, 0).unwrap();
    for y in 2..38 {
        for x in 2..38 {
            let at = (y * 40 + x) * 3;
            // The middle of the pixels that became this one.
            let (within, down) = (x as f64 * 4.0 + 1.5, y as f64 * 4.0 + 1.5);
            let close = |value: u8, expected: f64| {
                assert!((f64::from(value) - expected).abs() < 4.0, "{x} {y}: {value} {expected}")
            };
            close(cut[at], (80.0 + within) / 2.0);
            close(cut[at + 1], down);
            close(cut[at + 2], 90.0);
            close(all[at], (x as f64 * 8.0 + 3.5) / 2.0);
            close(all[at + 1], down);
        }
    }
}

#[test]
fn the_first_of_the_names_is_taken_and_other_fields_pass_or_are_dropped() {
    let (first, second) = (png(places(2, 2)), png(RgbImage::new(2, 2)));
    let sample: [(TensorSpec, &[u8]); 4] = [
        (TensorSpec::new("cls", DType::U8, [1]), b"7"),
        (TensorSpec::new("png", DType::U8, [second.len() as u64]), &second),
        (TensorSpec::new("jpg", DType::U8, [first.len() as u64]), &first),
        (TensorSpec::new("empty", DType::U8, [0]), b""),
    ];
    let done = run(&DecodeImage::new(2, 2).output("picture"), &sample).unwrap();
    let names: Vec<&str> = done.iter().map(|(spec, _)| &*spec.name).collect();
    assert_eq!(names, ["cls", "png", "picture", "empty"]);
    assert_eq!((&done[0].1[..], &done[1].1, &done[2].1), (&b"7"[..], &second, places(2, 2).as_raw()));
    let done = run(&DecodeImage::new(2, 2).fields(["png"]).drop_others(), &sample).unwrap();
    assert_eq!(done, [(TensorSpec::new("image", DType::U8, [2, 2, 3]), vec![0; 12])]);
}

#[test]
fn random_parts_and_flips_follow_from_the_sample_alone() {
    let file = png(places(64, 48));
    let flips = DecodeImage::new(48, 64).random_flip();
    let straight = decoded(&DecodeImage::new(48, 64), "png", &file, 0).unwrap();
    let mirrored: Vec<u8> = straight.chunks(64 * 3).flat_map(|line| line.chunks(3).rev().flatten().copied()).collect();
    let mut flipped = 0;
    for index in 0..200 {
        let drawn = decoded(&flips, "png", &file, index).unwrap();
        assert!(drawn == straight || drawn == mirrored);
        flipped += usize::from(drawn == mirrored);
        let planes = decoded(&flips.clone().channels(Channels::First), "png", &file, index).unwrap();
        let reds: Vec<u8> = drawn.iter().copied().step_by(3).collect();
        assert_eq!(planes[..48 * 64], reds);
    }
    assert!((70..130).contains(&flipped), "{flipped}");
    let crops = DecodeImage::new(16, 16).random_crop(0.1);
    let parts = |order: &mut dyn Iterator<Item = u64>| -> Vec<Vec<u8>> {
        order.map(|index| decoded(&crops, "png", &file, index).unwrap()).collect()
    };
    let once = parts(&mut (0..20));
    assert!(
        std::thread::scope(|scope| scope.spawn(|| parts(&mut (0..20).rev())).join().unwrap()).iter().rev().eq(&once)
    );
    let different: std::collections::HashSet<_> = once.iter().collect();
    assert!(different.len() > 17, "{}", different.len());
}

#[test]
fn a_file_that_is_cut_short_is_an_error_wherever_it_ends() {
    let files = [jpeg(&places(24, 17)), png(places(24, 17))];
    for file in files {
        assert!(decoded(&DecodeImage::new(8, 8), "jpg", &file, 0).is_ok());
        // Of a PNG, the last 12 bytes only say that nothing follows, and its data's checksum may be where it is not read.
        for len in 0..file.len() - 16 {
            let error = decoded(&DecodeImage::new(8, 8), "jpg", &file[..len], 0).unwrap_err();
            assert!(matches!(fault(error), TransformFault::Refused { .. }), "{len}");
        }
    }
    let file = jpeg(&places(24, 17));
    for missing in 1..16 {
        assert!(decoded(&DecodeImage::new(8, 8), "jpg", &file[..file.len() - missing], 0).is_err(), "{missing}");
    }
    // What follows the end of a JPEG is nobody's business.
    assert!(decoded(&DecodeImage::new(8, 8), "jpg", &[&file[..], b"\0\0more"].concat(), 0).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_broken_file_is_an_error_or_a_picture_and_never_a_panic(
        is_png in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = if is_png { png(places(19, 23)) } else { jpeg(&places(19, 23)) };
        for (at, byte) in &changes {
            let at = at.index(file.len());
            file[at] = *byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let transform = DecodeImage::new(8, 8).max_pixels(1 << 20);
        match decoded(&transform, "jpg", &file, 0) {
            Ok(_) => {}
            Err(error) => {
                let said = fault(error).to_string();
                prop_assert!(said.contains("jpg") && !said.contains("panicked"), "{}", said);
            }
        }
    }
}

#[test]
fn a_picture_of_too_many_pixels_is_refused_from_its_header() {
    let mut file = png(places(4, 4));
    // The width and height of the header, and its checksum.
    file[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let sum = crc(&file[12..29]);
    file[29..33].copy_from_slice(&sum.to_be_bytes());
    let said = decoded(&DecodeImage::new(4, 4), "png", &file, 0).unwrap_err().to_string();
    assert!(said.contains("65536 x 65536"), "{said}");
    let mut file = jpeg(&places(16, 16));
    let frame = file.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    file[frame + 5..frame + 9].fill(0xff);
    let said = decoded(&DecodeImage::new(4, 4), "jpg", &file, 0).unwrap_err().to_string();
    assert!(said.contains("65535 x 65535"), "{said}");
    let file = png(places(40, 30));
    assert!(decoded(&DecodeImage::new(4, 4).max_pixels(1200), "png", &file, 0).is_ok());
    assert!(decoded(&DecodeImage::new(4, 4).max_pixels(1199), "png", &file, 0).is_err());
    // A line of pixels, which would take as much memory between two passes as many lines.
    let line = png(RgbImage::new(1100, 1));
    let stretch = DecodeImage::new(100, 2).fit(Fit::Stretch).max_pixels(4096);
    assert!(decoded(&stretch, "png", &line, 0).unwrap_err().to_string().contains("1100 x 1"));
}

#[test]
fn what_holds_no_picture_is_refused_before_anything_is_read() {
    let file = [TensorSpec::new("jpg", DType::U8, [100])];
    let decode = || DecodeImage::new(8, 8);
    assert!(decode().specs(&file, &mut Vec::new()).is_ok());
    assert_refused(&decode(), &[TensorSpec::new("webp", DType::U8, [9])], &["jpg, jpeg, png", "webp", "fields"]);
    assert_refused(&decode(), &[TensorSpec::new("jpg", DType::U16, [9])], &["jpg", "U16"]);
    assert_refused(&decode(), &[TensorSpec::new("jpg", DType::U8, [9, 9])], &["jpg", "[9, 9]"]);
    assert_refused(&DecodeImage::new(0, 8), &file, &["0 x 8"]);
    assert_refused(&DecodeImage::new(u32::MAX, u32::MAX), &file, &["4294967295"]);
    for share in [0.0, -1.0, 1.01, f64::NAN] {
        assert_refused(&decode().random_crop(share), &file, &["share"]);
    }
    let two = [TensorSpec::new("jpg", DType::U8, [9]), TensorSpec::new("image", DType::U8, [9])];
    assert_refused(&decode(), &two, &["image", "drop_others"]);
}
