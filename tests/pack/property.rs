//! Any small dataset comes back.
use forebay::dataset::DType;
use forebay::pack::{Layout, PackOptions, pack};
use proptest::prelude::*;

use crate::common::effort;
use crate::common::folder;
use crate::made::{Made, Sample, sample, tensor};
use crate::oracle;

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::all().collect::<Vec<_>>())
}

/// Name, type and shape; the last dimension is such that elements of six bits fill bytes.
fn field() -> impl Strategy<Value = (String, DType, Vec<u64>)> {
    let dims = prop::collection::vec(0..4_u64, 0..3);
    ("[a-c.\"\\\\é]{0,3}", dtype(), dims).prop_map(|(name, dtype, mut dims)| {
        if dtype.bits() < 8 {
            dims.push(4);
        }
        (name, dtype, dims)
    })
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let fields = || {
        prop::collection::vec(field(), 1..4).prop_map(|mut fields| {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields.dedup_by(|a, b| a.0 == b.0);
            fields
        })
    };
    let different = prop::collection::vec(fields(), 1..12);
    let alike = (fields(), 1..12_usize).prop_map(|(fields, count)| vec![fields; count]);
    prop_oneof![different, alike].prop_map(|all| {
        let made = all.iter().zip(0..).map(|(fields, i)| {
            let tensors =
                fields.iter().zip(0..).map(|((name, dtype, shape), j)| tensor(name, *dtype, shape, 31 * i + j));
            sample(format!("d.ir/{i}"), tensors)
        });
        made.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(12, 48)))]

    #[test]
    fn every_dataset_comes_back_byte_for_byte(samples in samples(), shard_bytes in prop_oneof![Just(1 << 30), 1..60_u64]) {
        let (source, out) = (folder(), folder());
        let options = PackOptions::new().shard_bytes(shard_bytes);
        let packed = pack(&Made::new(source.path(), &samples), out.path(), &options).unwrap();
        oracle::check(&packed, out.path());
        let alike = samples.iter().all(|(_, fields)| {
            fields.len() == samples[0].1.len() && fields.iter().zip(&samples[0].1).all(|(a, b)| a.spec == b.spec)
        });
        prop_assert_eq!(packed.layout, if alike { Layout::Rows } else { Layout::Samples });
        if !alike {
            prop_assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
            return Ok(());
        }
        let mut rest = samples.as_slice();
        for file in &packed.files {
            let (held, later) = rest.split_at(file.samples as usize);
            prop_assert_eq!(oracle::of_file(&file.path), oracle::rows(held));
            rest = later;
        }
        prop_assert!(rest.is_empty());
    }
}
