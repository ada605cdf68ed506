use std::panic::panic_any;

use super::super::{Chain, Map};
use super::*;
use crate::dataset::DType;

fn panics_with(panic: impl Fn() + Send + Sync) -> String {
    let map = Map::new([TensorSpec::new("x", DType::U8, [1])], move |_, _| {
        panic();
        Ok(())
    });
    let TransformFault::Panicked { message } = fault(run(&map, &[]).unwrap_err()) else { panic!("not caught as one") };
    message
}

#[test]
fn a_panic_is_an_error_that_says_what_it_said() {
    assert_eq!(panics_with(|| panic!("plain words")), "plain words");
    assert_eq!(panics_with(|| panic!("with {} in it", 137)), "with 137 in it");
    assert_eq!(panics_with(|| panic!("two\nlines")), "two\\nlines");
    assert!(panics_with(|| panic!("{}", "long ".repeat(10_000))).len() < 1000);
    assert!(panics_with(|| assert_eq!([0_u8; 0].first(), Some(&1))).contains("Some(1)"));
}

#[test]
fn a_panic_with_something_that_panics_when_it_is_dropped_is_caught_too() {
    struct Trap;

    impl Drop for Trap {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    assert_eq!(panics_with(|| panic_any(Trap)), "with something that is no text");
}

#[test]
fn a_panic_that_is_asked_for_specs_is_caught() {
    struct Panics;

    impl Transform for Panics {
        fn specs(&self, _: &[TensorSpec], _: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
            panic!("no specs")
        }

        fn apply(&self, _: &Sample<'_>, _: &mut Output<'_, '_>) -> Result<(), TransformError> {
            Ok(())
        }
    }

    let said = run(&Panics, &[]).unwrap_err().to_string();
    assert_eq!(said, "the transform panicked: no specs; mend it, or return an error there");
}

#[test]
fn asking_for_a_tensor_that_is_not_there_is_an_error_of_the_sample() {
    let map = Map::new([TensorSpec::new("x", DType::U8, [1])], |sample, output| {
        output.bytes(0)[0] = sample.bytes(5)[0];
        Ok(())
    });
    assert!(matches!(fault(run(&map, &[]).unwrap_err()), TransformFault::Panicked { .. }));
}

#[test]
fn a_chain_goes_on_after_a_panic_in_either_part() {
    let spec = TensorSpec::new("x", DType::U8, [1]);
    let part = |panics_at: u8| {
        Map::new([spec.clone()], move |sample, output| {
            assert_ne!(sample.bytes(0)[0], panics_at, "{panics_at} is not liked");
            output.bytes(0)[0] = sample.bytes(0)[0] + 1;
            Ok(())
        })
    };
    let chain = Chain::new(part(3), part(9));
    for round in 0..12_u8 {
        match run(&chain, &[(spec.clone(), &[round])]) {
            Ok(done) => assert_eq!(done[0].1, [round + 2]),
            Err(error) => assert!(round == 3 || round == 8, "{round}: {error}"),
        }
    }
}

/// Behind pointers a transform is what it is.
#[test]
fn pointers_to_transforms_are_transforms() {
    fn doubles(transform: impl Transform) {
        let done = run(&transform, &[(TensorSpec::new("x", DType::U8, [1]), &[21])]).unwrap();
        assert_eq!(done[0].1, [42]);
    }
    let double = || {
        Map::new([TensorSpec::new("y", DType::U8, [1])], |sample, output| {
            output.bytes(0)[0] = sample.bytes(0)[0] * 2;
            Ok(())
        })
    };
    doubles(Box::new(double()) as Box<dyn Transform>);
    doubles(std::sync::Arc::new(double()) as std::sync::Arc<dyn Transform>);
    let lent = double();
    doubles(&lent as &dyn Transform);
}
