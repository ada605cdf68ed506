/// What the tensors of a file that [`pack`](crate::pack::pack) has written are: the value of `forebay.layout` in its
/// metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// `rows`: one field of all samples, sample i in row i.
    Rows,
    /// `samples`: one field of one sample, called `{id}.{field}`.
    Samples,
    /// `tensors`: what it was before.
    Tensors,
}

impl Layout {
    /// The key in the metadata of a file.
    pub const KEY: &str = "forebay.layout";

    /// The key of a list, as JSON, of the names of a sample's tensors in its order, where that of the data is another.
    pub(crate) const FIELDS: &str = "forebay.fields";

    /// The value of [`KEY`](Self::KEY).
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Samples => "samples",
            Self::Tensors => "tensors",
        }
    }
}
