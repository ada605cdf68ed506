use std::sync::Arc;

use half::{bf16, f16};

use super::error::{TransformError, TransformFault};
use super::fields::{Channels, Fields, unfit};
use super::interface::Transform;
use super::number::{elements, is_number, places, put, with_number};
use super::output::Output;
use super::sample::Sample;
use crate::dataset::{DType, TensorSpec};

/// Numbers as `F32`, scaled and normalised: `(x * scale - mean) / std`, with a mean and a standard deviation for all or for
/// each channel.
///
/// The three are 1, 0 and 1 unless they are set. It is computed as written, in `F32`; of integers of 32 bits and more and
/// of `F64` in `F64`, and rounded at the end. `BOOL` is 0 or 1.
///
/// Every tensor is converted, or those that [`fields`](Self::fields) names while the others pass as they are. `C64` and
/// floats of 8 bits and fewer are refused.
///
/// ```
/// use forebay::loader::transform::ToFloat;
///
/// // Pictures of bytes, normalised as those of ImageNet usually are.
/// let to_float = ToFloat::new().scale(1.0 / 255.0).mean([0.485, 0.456, 0.406]).std([0.229, 0.224, 0.225]).fields(["image"]);
/// ```
#[derive(Clone, Debug)]
pub struct ToFloat {
    fields: Fields,
    channels: Channels,
    scale: f32,
    mean: Vec<f32>,
    std: Vec<f32>,
    /// The means and deviations of neighbouring elements whose channels are last, repeated to be worth a loop.
    repeated: (Vec<f32>, Vec<f32>),
}

impl ToFloat {
    /// Every tensor as `F32`, neither scaled nor shifted.
    pub fn new() -> Self {
        let (fields, channels) = (Fields::All, Channels::Last);
        let (mean, std) = (vec![0.0], vec![1.0]);
        Self { fields, channels, scale: 1.0, mean, std, repeated: Default::default() }.repeat()
    }

    /// What each number is multiplied by first.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// What is subtracted then: one number, or one for each channel.
    pub fn mean(mut self, mean: impl Into<Vec<f32>>) -> Self {
        self.mean = mean.into();
        self.repeat()
    }

    /// What it is divided by at last: one number, or one for each channel.
    pub fn std(mut self, std: impl Into<Vec<f32>>) -> Self {
        self.std = std.into();
        self.repeat()
    }

    /// Which dimension is that of the channels; the last where this is not called. It matters where there is a mean or
    /// deviation for each.
    pub fn channels(mut self, channels: Channels) -> Self {
        self.channels = channels;
        self
    }

    /// Only the tensors of these names, all of which a sample must have.
    pub fn fields<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fields = Fields::named(names);
        self
    }

    fn repeat(mut self) -> Self {
        const WORTH_A_LOOP: usize = 256;
        let count = self.count();
        let len = WORTH_A_LOOP.div_ceil(count.max(1)).saturating_mul(count);
        let repeated = |values: &[f32]| values.iter().copied().cycle().take(len).collect();
        self.repeated = (repeated(&self.mean), repeated(&self.std));
        self
    }

    /// How many channels the means and deviations are for; 1 where they are for all.
    fn count(&self) -> usize {
        self.mean.len().max(self.std.len())
    }

    fn check_settings(&self) -> Result<(), TransformFault> {
        let (mean, std) = (&self.mean, &self.std);
        let count = self.count();
        if [mean, std].iter().any(|values| values.is_empty() || (values.len() != count && values.len() != 1)) {
            let what = format!("{} means and {} standard deviations are given", mean.len(), std.len());
            return Err(TransformFault::refused(what, "give one, or one for each channel"));
        }
        if !self.scale.is_finite() || mean.iter().any(|x| !x.is_finite()) {
            let what = "the scale or a mean is no finite number";
            return Err(TransformFault::refused(what, "give finite numbers"));
        }
        match std.iter().find(|x| !x.is_normal()) {
            Some(std) => {
                let what = format!("{std} is given as a standard deviation");
                Err(TransformFault::refused(what, "give numbers that can be divided by"))
            }
            None => Ok(()),
        }
    }

    /// A mean for each of several channels is for tensors that have as many.
    fn check(&self, spec: &TensorSpec) -> Result<(), TransformFault> {
        if !is_number(spec.dtype) {
            return Err(unfit(spec, "its elements are not converted", "name the fields to convert, without this one"));
        }
        let channels = match self.channels {
            Channels::Last => spec.shape.last(),
            Channels::First => spec.shape.first(),
        };
        let count = self.count() as u64;
        if count > 1 && channels != Some(&count) {
            let which = match self.channels {
                Channels::Last => "last",
                Channels::First => "first",
            };
            let what = format!("means or deviations of {count} channels are for a {which} dimension of {count}");
            return Err(unfit(spec, what, "give one for each channel, or tell which dimension has them by `channels`"));
        }
        Ok(())
    }

    /// `from` and `to` are of as many elements.
    fn convert<T: Normalised>(&self, from: &[u8], to: &mut [u8]) {
        let planes = match self.channels {
            Channels::First => self.count(),
            Channels::Last => 1,
        };
        let run = |elements: usize| (elements.max(1) * size_of::<T>(), elements.max(1) * size_of::<f32>());
        if planes > 1 {
            // A channel is a run of elements that share one mean.
            let (from_run, to_run) = run(from.len() / size_of::<T>() / planes);
            for (channel, (from, to)) in from.chunks(from_run).zip(to.chunks_mut(to_run)).enumerate() {
                let (mean, std) = (one_of(&self.mean, channel), one_of(&self.std, channel));
                for (place, x) in places::<f32>(to).zip(elements::<T>(from)) {
                    put(place, x.normalised(self.scale, mean, std));
                }
            }
        } else {
            let (means, stds) = &self.repeated;
            let (from_run, to_run) = run(means.len());
            for (from, to) in from.chunks(from_run).zip(to.chunks_mut(to_run)) {
                let numbers = places::<f32>(to).zip(elements::<T>(from)).zip(means.iter().zip(stds));
                numbers.for_each(|((place, x), (&mean, &std))| put(place, x.normalised(self.scale, mean, std)));
            }
        }
    }
}

/// The channel's own, or the one for all.
fn one_of(values: &[f32], channel: usize) -> f32 {
    values.get(channel).or(values.first()).copied().unwrap_or_default()
}

impl Default for ToFloat {
    fn default() -> Self {
        Self::new()
    }
}

impl Transform for ToFloat {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        self.check_settings()?;
        self.fields.check(input)?;
        for spec in input {
            match self.fields.has(&spec.name) {
                true => {
                    self.check(spec)?;
                    output.push(TensorSpec { dtype: DType::F32, ..spec.clone() });
                }
                false => output.push(spec.clone()),
            }
        }
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        for i in 0..sample.len() {
            let (spec, from) = sample.field(i)?;
            if !self.fields.has(&spec.name) {
                output.row_of(i, spec.dtype, &spec.shape)?.copy_from_slice(from);
                continue;
            }
            let to = output.row_of(i, DType::F32, &spec.shape)?;
            self.check_settings()?;
            self.check(spec)?;
            with_number!(spec.dtype, T => self.convert::<T>(from, to), else ());
        }
        Ok(())
    }
}

trait Normalised: bytemuck::Pod {
    fn normalised(self, scale: f32, mean: f32, std: f32) -> f32;
}

/// Types whose every value is an `f32`.
macro_rules! narrow {
    ($($number:ty),*) => {
        $(
            impl Normalised for $number {
                fn normalised(self, scale: f32, mean: f32, std: f32) -> f32 {
                    (f32::from(self) * scale - mean) / std
                }
            }
        )*
    };
}

macro_rules! wide {
    ($($number:ty),*) => {
        $(
            impl Normalised for $number {
                fn normalised(self, scale: f32, mean: f32, std: f32) -> f32 {
                    ((self as f64 * f64::from(scale) - f64::from(mean)) / f64::from(std)) as f32
                }
            }
        )*
    };
}

narrow!(u8, i8, u16, i16, f16, bf16, f32);
wide!(u32, i32, u64, i64, f64);
