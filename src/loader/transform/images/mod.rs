//! Pictures: JPEG and PNG as bytes of red, green and blue.

mod decode;
mod jpeg;
mod part;
mod render;

use std::sync::Arc;

use super::caught::caught;
use super::error::{TransformError, TransformFault};
use super::fields::{Channels, push_new, unfit};
use super::interface::Transform;
use super::output::Output;
use super::random::Draws;
use super::sample::Sample;
use crate::dataset::{DType, Shape, TensorSpec};
use part::Part;

/// How a picture comes to the height and width that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fit {
    /// The middle of it, the largest part of the shape asked for: the same as to resize until the smaller side fits, and to
    /// cut the middle out.
    #[default]
    Crop,
    /// All of it, stretched where its shape is another.
    Stretch,
}

/// A picture from the bytes of a JPEG or PNG file: a tensor `image` of `U8`, `[height, width, 3]`, red, green and blue.
///
/// The file is a field that is called `jpg`, `jpeg` or `png`, as in WebDataset archives, the first of these that a sample
/// has; other fields pass as they are. What kind it is, its content tells. It is resized by triangles as wide as the pixels
/// that become one (bilinear, antialiased). Gray becomes equal colours, an alpha channel is left away, 16 bits become 8;
/// turns that EXIF data ask for are not made.
///
/// A file that is cut short, cannot be decoded or has more pixels than [`max_pixels`](Self::max_pixels) is an error. Damage
/// within a JPEG of whole length may pass as wrong pixels, as in other decoders: the format has no checksum.
///
/// ```
/// use forebay::loader::transform::{Chain, DecodeImage, ToFloat};
///
/// // For training on ImageNet: a random part, at times mirrored, then normalised.
/// let decode = DecodeImage::new(224, 224).random_crop(0.08).random_flip();
/// let to_float = ToFloat::new().scale(1.0 / 255.0).mean([0.485, 0.456, 0.406]).std([0.229, 0.224, 0.225]);
/// let transform = Chain::new(decode, to_float.fields(["image"]));
/// ```
#[derive(Clone, Debug)]
pub struct DecodeImage {
    height: u32,
    width: u32,
    fields: Vec<Arc<str>>,
    output: Arc<str>,
    channels: Channels,
    fit: Fit,
    /// The least share of the picture's area that a random part has.
    least_area: Option<f64>,
    random_flip: bool,
    drop_others: bool,
    max_pixels: u64,
}

impl DecodeImage {
    /// Pictures of that many pixels.
    pub fn new(height: u32, width: u32) -> Self {
        Self {
            height,
            width,
            fields: ["jpg", "jpeg", "png"].map(Into::into).into(),
            output: "image".into(),
            channels: Channels::Last,
            fit: Fit::Crop,
            least_area: None,
            random_flip: false,
            drop_others: false,
            max_pixels: 1 << 26,
        }
    }

    /// The fields that may hold the file, in place of `jpg`, `jpeg` and `png`: the first of them that a sample has is taken.
    pub fn fields<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fields = names.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the picture's tensor, in place of `image`. It stands where the file's field stood.
    pub fn output(mut self, name: impl Into<Arc<str>>) -> Self {
        self.output = name.into();
        self
    }

    /// `Channels::First` makes it `[3, height, width]`.
    pub fn channels(mut self, channels: Channels) -> Self {
        self.channels = channels;
        self
    }

    /// How a picture of another size is made to fit; [`Fit::Crop`] where this is not called.
    pub fn fit(mut self, fit: Fit) -> Self {
        self.fit = fit;
        self
    }

    /// In place of [`fit`](Self::fit), a random part, resized: of `least_area` of the picture's area or more, at most 1, and
    /// up to a third wider or narrower than the shape asked for (Szegedy and others, "Going deeper with convolutions", 2014).
    /// Drawn from [`Sample::random`], so that it is the same part whenever the same epoch is read with the same seed.
    pub fn random_crop(mut self, least_area: f64) -> Self {
        self.least_area = Some(least_area);
        self
    }

    /// Mirrors every second picture left to right, drawn from [`Sample::random`] as well.
    pub fn random_flip(mut self) -> Self {
        self.random_flip = true;
        self
    }

    /// Keeps nothing but the picture.
    pub fn drop_others(mut self) -> Self {
        self.drop_others = true;
        self
    }

    /// The most pixels a picture may have in its file, 2^26 where this is not called; one with more is an error and not
    /// decoded. Decoding takes up to 16 bytes for each, on every worker.
    pub fn max_pixels(mut self, pixels: u64) -> Self {
        self.max_pixels = pixels;
        self
    }

    fn check_settings(&self) -> Result<(), TransformFault> {
        if self.height == 0 || self.width == 0 {
            let what = format!("pictures of {} x {} are asked for", self.height, self.width);
            return Err(TransformFault::refused(what, "give a height and a width of 1 or more"));
        }
        if u64::from(self.height) * u64::from(self.width) > self.max_pixels {
            let what =
                format!("pictures of {} x {} have more pixels than {}", self.height, self.width, self.max_pixels);
            return Err(TransformFault::refused(what, "ask for smaller ones, or allow more by `max_pixels`"));
        }
        match self.least_area {
            Some(share) if !(share > 0.0 && share <= 1.0) => {
                let what = format!("random parts of {share} of a picture are asked for");
                Err(TransformFault::refused(what, "give a share above 0, and at most 1"))
            }
            _ => Ok(()),
        }
    }

    /// Which tensor is the file.
    fn find(&self, input: &[TensorSpec]) -> Result<usize, TransformFault> {
        let position = |name: &Arc<str>| input.iter().position(|spec| spec.name == *name);
        let at = self.fields.iter().find_map(position);
        let Some((at, spec)) = at.and_then(|at| Some((at, input.get(at)?))) else {
            let names =
                |names: &mut dyn Iterator<Item = &Arc<str>>| names.map(|name| &**name).collect::<Vec<_>>().join(", ");
            let (asked, there) = (names(&mut self.fields.iter()), names(&mut input.iter().map(|spec| &spec.name)));
            let what = format!("there is no field of a picture, which is called one of {asked}, but {there}");
            return Err(TransformFault::refused(what, "name the field by `fields`"));
        };
        match spec.dtype == DType::U8 && spec.shape.len() == 1 {
            true => Ok(at),
            false => {
                Err(unfit(spec, "a file of a picture is of U8 [bytes]", "name the field that has one by `fields`"))
            }
        }
    }

    fn shape(&self) -> Shape {
        let (height, width) = (self.height.into(), self.width.into());
        match self.channels {
            Channels::Last => [height, width, 3].into(),
            Channels::First => [3, height, width].into(),
        }
    }

    /// Decodes `file`, and draws its part of it into `row`.
    fn draw(&self, file: &[u8], random: u64, row: &mut [u8]) -> Result<(), TransformError> {
        let picture = decode::decode(file, self.max_pixels)?;
        let (size, target) = (picture.dimensions(), (self.width, self.height));
        let mut draws = Draws(random);
        // First, so that the draws for a part change nothing of it.
        let flipped = self.random_flip && draws.next() % 2 == 1;
        let part = match (self.least_area, self.fit) {
            (Some(least_area), _) => Part::random(size, target, least_area, &mut draws),
            (None, Fit::Crop) => Part::middle(size, target),
            (None, Fit::Stretch) => Part::all(size),
        };
        let drawn = render::resized(picture, part, target, self.max_pixels)?;
        render::fill(row, &drawn, self.channels, flipped);
        Ok(())
    }
}

impl Transform for DecodeImage {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        self.check_settings()?;
        let at = self.find(input)?;
        for (i, spec) in input.iter().enumerate() {
            let fix = "give the picture another name by `output`, or drop the others by `drop_others`";
            match (i == at, self.drop_others) {
                (true, _) => push_new(output, &self.output, DType::U8, self.shape(), fix)?,
                (false, false) => push_new(output, &spec.name, spec.dtype, spec.shape.clone(), fix)?,
                (false, true) => {}
            }
        }
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        self.check_settings()?;
        let at = self.find(sample.specs())?;
        let kept = (0..sample.len()).filter(|i| *i == at || !self.drop_others);
        for (row, i) in kept.enumerate() {
            let (spec, bytes) = sample.field(i)?;
            if i != at {
                output.row_of(row, spec.dtype, &spec.shape)?.copy_from_slice(bytes);
                continue;
            }
            let row = output.row_of(row, DType::U8, &self.shape())?;
            let drawn = caught(|| self.draw(bytes, sample.random(), row));
            drawn.map_err(|error| {
                let what = format!("{} holds no picture that can be decoded: {error}", spec.name);
                TransformFault::refused(what, "get the file again, or leave it out")
            })?;
        }
        Ok(())
    }
}
