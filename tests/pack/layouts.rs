//! What is packed is what was there, by the oracles.
use std::sync::{Arc, Mutex};

use forebay::dataset::{DType, Dataset, Safetensors, StoredTensor, TensorSpec};
use forebay::pack::{Layout, PackOptions, pack, pack_tensors};
use forebay::{Extent, Mode, Reader};

use crate::common::folder;
use crate::common::python::Python;
use crate::made::{Made, sample, tensor, uniform, varying};
use crate::{or_skip, oracle};

#[test]
fn uniform_samples_are_rows() {
    let (source, out) = (folder(), folder());
    for count in [1, 2, 33] {
        let samples = uniform(count);
        let path = out.path().join(format!("{count}.safetensors"));
        let packed = pack(&Made::new(source.path(), &samples), &path, &PackOptions::new()).unwrap();
        assert_eq!((packed.layout, packed.samples, packed.tensors), (Layout::Rows, count, 8));
        assert_eq!(oracle::of_file(&path), oracle::rows(&samples));
    }
}

#[test]
fn fields_in_another_order_are_the_same_rows() {
    let (source, out) = (folder(), folder());
    let mut samples = uniform(9);
    samples.iter_mut().step_by(2).for_each(|(_, fields)| fields.reverse());
    samples[3].1.rotate_left(3);
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new()).unwrap();
    assert_eq!(packed.layout, Layout::Rows);
    oracle::check(&packed, out.path());
    assert_eq!(oracle::of_files(&packed), oracle::rows(&samples));
}

#[test]
fn samples_that_differ_are_tensors_of_their_own_and_keep_their_order() {
    let (source, out) = (folder(), folder());
    let samples = varying(40, 900);
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new()).unwrap();
    assert_eq!((packed.layout, packed.files.len(), packed.samples), (Layout::Samples, 1, 40));
    oracle::check(&packed, out.path());
    assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
    let bytes = std::fs::read(&packed.files[0].path).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let expected: Vec<String> = samples
        .iter()
        .flat_map(|(id, fields)| fields.iter().map(move |field| format!("{id}.{}", field.spec.name)))
        .collect();
    // Of tensors without bytes the crate does not know the order.
    let with_bytes = |names: Vec<String>| -> Vec<String> {
        names
            .into_iter()
            .filter(|name| header.info(name).unwrap().data_offsets.0 != header.info(name).unwrap().data_offsets.1)
            .collect()
    };
    assert_eq!(with_bytes(header.offset_keys()), with_bytes(expected));
}

#[test]
fn rows_are_read_back_as_the_samples_that_they_were() {
    let (source, out) = (folder(), folder());
    let samples = uniform(23);
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new().shard_bytes(700)).unwrap();
    assert!(packed.files.len() > 2);
    let paths: Vec<_> = packed.files.iter().map(|file| &file.path).collect();
    let read = Safetensors::open(&paths).unwrap().check_samples().unwrap();
    assert_eq!(read.len(), 23);
    for (i, (_, fields)) in samples.iter().enumerate() {
        let sample = read.sample(i as u64).unwrap();
        // Also where wider types lie before them in the file.
        let specs: Vec<_> = fields.iter().map(|field| field.spec.clone()).collect();
        assert_eq!(sample.tensors(), specs, "the fields keep their order");
        assert_eq!(sample.position(&specs[1].name), Some(1));
        assert_eq!(sample.tensors().len(), fields.len());
        for (tensor, ranges) in sample.fields() {
            let field = fields.iter().find(|field| field.spec == *tensor).unwrap();
            let path = read.files()[ranges[0].file as usize].path();
            assert_eq!(crate::common::data::oracle(path, ranges[0].offset, ranges[0].len).unwrap(), field.bytes);
        }
    }
}

#[test]
fn samples_that_differ_are_read_back_under_their_names() {
    let (source, out) = (folder(), folder());
    let samples: Vec<_> = (0..40)
        .map(|i| {
            let fields =
                vec![tensor("jpg", DType::U8, &[i % 7], i), tensor("seg.png", DType::U8, &[3 + i % 5], 100 + i)];
            sample(format!("v1.0/größe {i:03}"), fields.into_iter().take(if i % 9 == 4 { 1 } else { 2 }))
        })
        .collect();
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new().shard_bytes(100)).unwrap();
    assert_eq!(packed.layout, Layout::Samples);
    assert!(packed.files.len() > 2);
    let paths: Vec<_> = packed.files.iter().map(|file| &file.path).collect();
    let read = Safetensors::open(&paths).unwrap().check_samples().unwrap();
    assert_eq!(read.len(), 40);
    for (i, (id, fields)) in samples.iter().enumerate() {
        assert_eq!(read.id(i as u64), *id);
        let sample = read.sample(i as u64).unwrap();
        assert_eq!(sample.tensors(), fields.iter().map(|field| field.spec.clone()).collect::<Vec<_>>());
        for ((_, ranges), field) in sample.fields().zip(fields) {
            let path = read.files()[ranges[0].file as usize].path();
            assert_eq!(crate::common::data::oracle(path, ranges[0].offset, ranges[0].len).unwrap(), field.bytes);
        }
    }
    assert!(read.sample(40).is_err());
    let twice = [paths[0], paths[1], paths[0]];
    let error = Safetensors::open(&twice).unwrap().check_samples().unwrap_err().to_string();
    assert!(error.contains("is in an earlier file, too"), "{error}");
}

#[test]
fn one_difference_is_enough_to_differ() {
    let (source, out) = (folder(), folder());
    let base = || vec![tensor("a", DType::U8, &[4], 1), tensor("b", DType::I16, &[2], 2)];
    let others = [
        vec![tensor("a", DType::U8, &[4], 3)],
        vec![tensor("a", DType::U8, &[4], 3), tensor("c", DType::I16, &[2], 4)],
        vec![tensor("a", DType::I8, &[4], 3), tensor("b", DType::I16, &[2], 4)],
        vec![tensor("a", DType::U8, &[2, 2], 3), tensor("b", DType::I16, &[2], 4)],
        vec![tensor("a", DType::U8, &[4], 3), tensor("b", DType::I16, &[2], 4), tensor("c", DType::U8, &[], 5)],
    ];
    for (i, other) in others.into_iter().enumerate() {
        let samples = [sample("0", base()), sample("1", base()), sample("2", other)];
        let path = out.path().join(format!("{i}.safetensors"));
        let packed = pack(&Made::new(source.path(), &samples), &path, &PackOptions::new()).unwrap();
        assert_eq!(packed.layout, Layout::Samples);
        assert_eq!(oracle::of_file(&path), oracle::singles(&samples));
    }
}

#[test]
fn mixed_types_are_aligned_in_either_layout() {
    // `oracle::of_file` sees that every tensor begins at a multiple of its element.
    let (source, out) = (folder(), folder());
    let samples: Vec<_> = (0..20)
        .map(|i| {
            let fields = [
                tensor("odd", DType::U8, &[i % 5], i),
                tensor("tokens", DType::U32, &[i % 7], 100 + i),
                tensor("half", DType::F4, &[2 * (i % 3)], 200 + i),
                tensor("wide", DType::C64, &[i % 2, 3], 300 + i),
            ];
            sample(i, fields)
        })
        .collect();
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new()).unwrap();
    oracle::check(&packed, out.path());
    assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
}

#[test]
fn python_reads_the_same() {
    let python = or_skip!(Python::with(&["safetensors"]));
    let (source, out) = (folder(), folder());
    for (i, samples) in [uniform(1), uniform(12), varying(25, 300)].iter().enumerate() {
        let path = out.path().join(format!("{i}.safetensors"));
        pack(&Made::new(source.path(), samples), &path, &PackOptions::new()).unwrap();
        let theirs = oracle::of_file_in_python(&python, &path);
        assert!(!theirs.is_empty());
        assert_eq!(theirs, oracle::of_file(&path));
    }
}

#[test]
fn numpy_sees_the_values() {
    let python = or_skip!(Python::with(&["safetensors", "numpy"]));
    let (source, out) = (folder(), folder());
    let samples = [[1.5_f32, -2.0], [0.25, 1e9]].map(|values| {
        let spec = TensorSpec::new("x", DType::F32, [2]);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        sample("s", [crate::made::Tensor { spec, bytes }])
    });
    pack(&Made::new(source.path(), &samples), &out.path().join("x.safetensors"), &PackOptions::new()).unwrap();
    let script = "from safetensors import safe_open\n\
        with safe_open('x.safetensors', 'np') as f: print(f.get_tensor('x').tolist(), f.metadata())";
    let said = python.run(out.path(), script);
    assert_eq!(said.trim(), "[[1.5, -2.0], [0.25, 1000000000.0]] {'forebay.layout': 'rows'}");
}

#[test]
fn tensors_keep_their_names_and_foreign_metadata() {
    let (source, out) = (folder(), folder());
    let samples = [sample("", uniform(1).remove(0).1)];
    let made = Made::scattered(source.path(), &samples, 1);
    let stored = || {
        let spec = made.sample(0).unwrap();
        let stored: Vec<_> =
            spec.fields().map(|(spec, ranges)| StoredTensor { spec: spec.clone(), range: ranges[0] }).collect();
        Box::new(stored.into_iter().map(Ok))
    };
    let options = PackOptions::new().metadata("format", "pt");
    let packed = pack_tensors(&made, stored(), &out.path().join("all"), &options).unwrap();
    assert_eq!((packed.layout, packed.samples, packed.tensors), (Layout::Tensors, 0, 8));
    oracle::check(&packed, &out.path().join("all"));
    let expected = oracle::singles(&samples).into_iter().map(|(name, held)| (name[1..].to_owned(), held)).collect();
    assert_eq!(oracle::of_files(&packed), expected);
    assert_eq!(oracle::metadata_of(&packed.files[0].path)["format"], "pt");
    let options = options.metadata("part", "1").shard_bytes(9);
    let packed = pack_tensors(&made, stored(), &out.path().join("cut"), &options).unwrap();
    assert!(packed.files.len() > 3);
    oracle::check(&packed, &out.path().join("cut"));
    assert_eq!(oracle::of_files(&packed), expected);
    // A reader that knows nothing but the folder finds each tensor by the index.
    let index = out.path().join("cut/model.safetensors.index.json");
    let read = Safetensors::open(&[&index]).unwrap();
    assert_eq!(read.files().len(), packed.files.len());
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    let bytes: usize = expected.values().map(|held| held.bytes.len()).sum();
    assert_eq!(json["metadata"]["total_size"], bytes);
    for file in &packed.files {
        let name = file.path.file_name().unwrap().to_str().unwrap();
        for tensor in oracle::of_file(&file.path).keys() {
            assert_eq!(json["weight_map"][tensor], name, "{tensor}");
        }
    }
    assert_eq!(json["weight_map"].as_object().unwrap().len(), expected.len());
    assert!(!out.path().join("all/model.safetensors.index.json").exists());
    // It goes with the shards that it names.
    let error = pack_tensors(&made, stored(), &out.path().join("cut"), &PackOptions::new()).unwrap_err();
    assert!(error.to_string().contains("shard-000000"), "{error}");
    let to = out.path().join("cut again");
    pack_tensors(&made, stored(), &to, &PackOptions::new().shard_bytes(9)).unwrap();
    pack_tensors(&made, stored(), &to, &PackOptions::new().overwrite(true)).unwrap();
    let left: Vec<_> = std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["shard-000000.safetensors"]);
    // What all files say alike is said of the whole.
    let cut = packed.files.iter().map(|file| file.path.clone());
    let read = Safetensors::open(&cut.collect::<Vec<_>>()).unwrap();
    assert_eq!((read.metadata()["format"].as_str(), read.metadata()["part"].as_str()), ("pt", "1"));
    let both = [out.path().join("all/shard-000000.safetensors"), packed.files[0].path.clone()];
    let read = Safetensors::open(&both).unwrap();
    assert_eq!((read.metadata()["format"].as_str(), read.metadata().get("part")), ("pt", None));
}

#[test]
fn shards_are_as_large_as_asked_and_hold_every_sample_once() {
    let (source, out) = (folder(), folder());
    // One row has 8 + 8 + 60 + 1 + 11 + 3 + 3 bytes.
    let (row, samples) = (94, uniform(25));
    let made = Made::new(source.path(), &samples);
    for (shard_bytes, each) in [(1, 1), (2 * row - 1, 1), (2 * row, 2), (10 * row + 3, 10), (1 << 40, 25)] {
        let to = out.path().join(format!("rows-{shard_bytes}"));
        let packed = pack(&made, &to, &PackOptions::new().shard_bytes(shard_bytes)).unwrap();
        oracle::check(&packed, &to);
        let sizes: Vec<u64> = packed.files.iter().map(|file| file.samples).collect();
        assert_eq!(sizes, (0..25).step_by(each).map(|at| (25 - at).min(each) as u64).collect::<Vec<_>>());
        for (i, file) in packed.files.iter().enumerate() {
            let held = &samples[i * each..(i * each + each).min(25)];
            assert_eq!(oracle::of_file(&file.path), oracle::rows(held));
        }
    }
    let samples = varying(60, 500);
    let made = Made::new(source.path(), &samples);
    for shard_bytes in [1, 500, 2000] {
        let to = out.path().join(format!("samples-{shard_bytes}"));
        let packed = pack(&made, &to, &PackOptions::new().shard_bytes(shard_bytes)).unwrap();
        oracle::check(&packed, &to);
        assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
        let mut rest = samples.as_slice();
        for file in &packed.files {
            let (held, later) = rest.split_at(file.samples as usize);
            let bytes = |samples: &[crate::made::Sample]| -> u64 {
                samples.iter().flat_map(|(_, fields)| fields).map(|field| field.bytes.len() as u64).sum()
            };
            assert!(held.len() == 1 || bytes(held) <= shard_bytes);
            assert!(later.is_empty() || bytes(held) + bytes(&later[..1]) > shard_bytes, "cut too early");
            rest = later;
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn headers_stay_below_their_cap() {
    let (source, out) = (folder(), folder());
    let long = "x".repeat(100_000);
    let samples: Vec<_> = (0..200).map(|i| sample(format!("{long}{i}"), [tensor("a", DType::U8, &[i], i)])).collect();
    let made = Made::new(source.path(), &samples);
    let packed = pack(&made, out.path(), &PackOptions::new()).unwrap();
    assert!(packed.files.len() == 3, "{} files", packed.files.len());
    oracle::check(&packed, out.path());
    assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
    // One file may have a header up to what readers take.
    let one = pack(&made, &out.path().join("one.safetensors"), &PackOptions::new()).unwrap();
    assert_eq!(oracle::of_files(&one), oracle::singles(&samples));
}

#[test]
fn whole_blocks_of_the_data_are_read_past_the_page_cache() {
    let (source, out) = (folder(), folder());
    let samples: Vec<_> = (0..7).map(|i| sample(i, [tensor("x", DType::F32, &[50_000], i)])).collect();
    let path = out.path().join("x.safetensors");
    let packed = pack(&Made::new(source.path(), &samples), &path, &PackOptions::new()).unwrap();
    let reader = Reader::builder().mode(Mode::Direct).budget(16 << 20).build().unwrap();
    let file = reader.open(&path).unwrap();
    if let Err(why) = file.direct() {
        crate::common::skipped::skipped(format!("no direct reads here: {why}"));
        return;
    }
    assert!(packed.direct, "a disk that reads past the cache was written past it");
    let start = packed.bytes - 7 * 200_000;
    assert!(start.is_multiple_of(4096));
    let whole = 7 * 200_000 / 4096 * 4096;
    let pieces = reader.read_blocking(&[Extent::new(&file, start, whole)]).unwrap();
    let expected: Vec<u8> = samples.iter().flat_map(|(_, fields)| fields[0].bytes.clone()).collect();
    assert!(pieces[0] == expected[..whole as usize]);
    assert_eq!((reader.stats().bytes_direct, reader.stats().bytes_buffered), (whole, 0));
}

#[test]
fn progress_begins_at_nothing_and_ends_at_all() {
    let (source, out) = (folder(), folder());
    let samples: Vec<_> = (0..5).map(|i| sample(i, [tensor("x", DType::U8, &[1 << 20], i)])).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let options = PackOptions::new()
        .shard_bytes(2 << 20)
        .progress(move |progress| keep.lock().unwrap().push((progress.bytes, progress.total)));
    pack(&Made::new(source.path(), &samples), out.path(), &options).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted() && seen.iter().all(|&(_, total)| total == 5 << 20));
    assert_eq!((seen.first(), seen.last()), (Some(&(0, 5 << 20)), Some(&(5 << 20, 5 << 20))));
}

#[test]
fn little_memory_is_enough() {
    let (source, out) = (folder(), folder());
    let samples: Vec<_> = (0..300).map(|i| sample(i, [tensor("x", DType::U8, &[7000 + i % 2], i)])).collect();
    let made = Made::new(source.path(), &samples);
    for (i, budget) in [64 << 10, 200 << 10, 1 << 20].into_iter().enumerate() {
        let carrier = forebay::Carrier::builder().budget(budget).build().unwrap();
        let path = out.path().join(format!("{i}.safetensors"));
        pack(&made, &path, &PackOptions::new().with(&carrier)).unwrap();
        assert_eq!(oracle::of_file(&path), oracle::singles(&samples));
    }
}
