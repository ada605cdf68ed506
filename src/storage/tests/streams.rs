use super::*;

/// What a stream has read ahead is memory that the others cannot have: it must not be all there is.
#[test]
fn streams_taken_from_in_turns_all_come_to_their_end() {
    let sample = Sample::new(2 << 20);
    within_seconds(20, move || {
        let reader = Reader::builder().budget(4 << 20).chunk(64 << 10).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let extent = Extent::new(&file, 0, file.len());
        let mut streams: Vec<_> = (0..24).map(|_| (reader.stream([extent.clone()]).blocking(), Vec::new())).collect();
        while !streams.is_empty() {
            streams.retain_mut(|(stream, got)| match stream.next() {
                Some(part) => {
                    got.extend_from_slice(&part.unwrap());
                    true
                }
                None => {
                    assert!(*got == sample.bytes);
                    false
                }
            });
        }
    });
}

#[test]
fn a_stream_flows_through_any_budget() {
    let sample = Sample::new(300_001);
    for budget in [4 << 10, 20 << 10, 60 << 10, 100_000, 1_000_000] {
        for mode in [Mode::Auto, Mode::Buffered] {
            let reader = Reader::builder().budget(budget).mode(mode).build().unwrap();
            let file = reader.open(&sample.path).unwrap();
            let mut got = Vec::new();
            for part in reader.stream([Extent::new(&file, 5, 300_001 - 5)]).blocking() {
                got.extend_from_slice(&part.unwrap());
            }
            assert!(got == sample.bytes[5..], "budget {budget}");
        }
    }
}

#[test]
fn a_stream_past_the_end_fails_with_the_range_that_was_asked_for_and_before_its_first_part() {
    let sample = Sample::new(1 << 20);
    let reader = Reader::builder().engine(EngineChoice::Pread).budget(1 << 20).build().unwrap();
    let file = reader.open(&sample.path).unwrap();
    let inside = Extent::new(&file, 0, 100);
    let mut stream = reader.stream([inside, Extent::new(&file, (1 << 20) - 5, 10)]);
    assert_eq!(stream.next_blocking().unwrap().unwrap().len(), 100);
    let error = stream.next_blocking().unwrap().unwrap_err();
    assert_eq!(error.offset, (1 << 20) - 5);
    assert!(error.to_string().contains("a range of 10 bytes passes the end"), "{error}");
    assert!(stream.next_blocking().is_none());
}

#[test]
fn an_error_leads_to_what_lies_behind_it() {
    let reader = Reader::builder().engine(EngineChoice::Pread).budget(1 << 20).build().unwrap();
    let error = reader.open("/nowhere/at/all").unwrap_err();
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
}
