//! Tests of unpacking: parts of gzip and zstd, and what is damaged.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::unpacked::Unpacked;

fn gzip(text: &str) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

fn unpacked(stored: &[u8]) -> io::Result<Unpacked> {
    Unpacked::new(Box::new(io::Cursor::new(stored.to_vec())))
}

fn text_of(mut unpacked: Unpacked) -> io::Result<String> {
    let mut text = String::new();
    unpacked.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn parts_of_gzip_and_zstd_may_follow_each_other_with_padding() -> io::Result<()> {
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let one = zstd::encode_all(&b"one "[..], 3)?;
    let two = gzip("two ")?;
    let three = gzip("three")?;
    let stored = [&one[..], &skippable, &two, &[0; 600], &three, &[0; 7]].concat();
    assert_eq!(text_of(unpacked(&stored)?)?, "one two three");
    assert_eq!(text_of(unpacked(b"plain")?)?, "plain");
    assert_eq!(text_of(unpacked(b"")?)?, "");
    Ok(())
}

#[test]
fn reading_begins_again_at_every_place() -> io::Result<()> {
    let plain = b"one two three".to_vec();
    let members = [gzip("one ")?, gzip("two ")?, gzip("three")?].concat();
    let frames = [
        zstd::encode_all(&b"one "[..], 3)?,
        zstd::encode_all(&b"two three"[..], 3)?,
    ]
    .concat();
    for stored in [plain, members, frames, gzip("one two three")?] {
        let mut whole = unpacked(&stored)?;
        for at in 0..=13 {
            let (offset, skip) = whole.part_of(at);
            let rest = io::Cursor::new(stored[offset as usize..].to_vec());
            let mut again = whole.again_from(Box::new(rest), offset);
            again.pass_over(skip, 0)?;
            assert_eq!(text_of(again)?, "one two three"[at as usize..], "byte {at}");
            whole.pass_over(1, 0)?;
        }
        assert_eq!(whole.stored_offset(), stored.len() as u64);
    }
    Ok(())
}

#[test]
fn frames_of_zstd_are_unpacked_with_the_dictionary_before_them() -> io::Result<()> {
    let dictionary =
        b"WARC/1.0 WARC-Type: response WARC-Target-URI: https://example.org/".repeat(4);
    let mut packed = zstd::bulk::Compressor::with_dictionary(3, &dictionary)?;
    let frame = packed.compress(b"WARC/1.0 WARC-Type: response")?;
    for stored in [
        dictionary.clone(),
        zstd::encode_all(dictionary.as_slice(), 3)?,
    ] {
        let length = (stored.len() as u32).to_le_bytes();
        let whole = [
            &[0x5d, 0x2a, 0x4d, 0x18][..],
            &length,
            &stored,
            &frame,
            &frame,
        ]
        .concat();
        let mut all = unpacked(&whole)?;
        all.pass_over(28, 0)?;
        assert_eq!(text_of(all)?, "WARC/1.0 WARC-Type: response");
        let mut all = unpacked(&whole)?;
        all.pass_over(29, 0)?;
        let (offset, skip) = all.part_of(28);
        assert_eq!((offset as usize, skip), (whole.len() - frame.len(), 0));
        let rest = all.again_from(Box::new(io::Cursor::new(frame.clone())), offset);
        assert_eq!(text_of(rest)?, "WARC/1.0 WARC-Type: response");
    }
    Ok(())
}

/// It was told to be damaged.
#[test]
fn a_frame_whose_dictionary_is_not_there_says_so() -> io::Result<()> {
    // The number of the dictionary in one byte and in four, then a last block of three bytes.
    let short = b"\x28\xb5\x2f\xfd\x21\x07\x03\x19\0\0abc";
    let long = b"\x28\xb5\x2f\xfd\x03\0\x07\0\0\x01\x19\0\0abc";
    for (frame, number) in [(&short[..], "7"), (long, "16777223")] {
        let stored = [&zstd::encode_all(&b"one "[..], 3)?, frame].concat();
        let begins = stored.len() - frame.len();
        let error = text_of(unpacked(&stored)?).expect_err("it has no dictionary");
        let begin = format!(
            "the frame of zstd that begins at byte {begins} needs the dictionary {number} "
        );
        assert!(error.to_string().starts_with(&begin), "{error}");
    }
    Ok(())
}

#[test]
fn damage_is_told_with_its_place_and_with_what_it_may_have_touched() -> io::Result<()> {
    let text: String = (0..20_000).map(|number| format!("{number} ")).collect();
    let first = gzip("one ")?;
    let second = gzip(&text)?;
    let mut flipped = [first.clone(), second.clone()].concat();
    let at = first.len() + second.len() - 6;
    flipped[at] ^= 1;
    let error = text_of(unpacked(&flipped)?)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        error.starts_with(&format!(
            "the packed data that begins at byte {} is damaged",
            first.len()
        )),
        "{error}"
    );
    assert!(
        error.contains("what was unpacked of it before may be damaged too"),
        "{error}"
    );
    let short = [&first[..], &second[..second.len() / 2]].concat();
    let error = text_of(unpacked(&short)?)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("ends too early"), "{error}");
    let odd = [&first[..], b"rest"].concat();
    let error = text_of(unpacked(&odd)?)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("neither gzip nor zstd"), "{error}");
    Ok(())
}

/// The name in the header of a member was read up to 64 KiB far at each place, and the dictionary of an archive was
/// taken in at each frame. A megabyte took twenty seconds.
#[test]
fn what_only_begins_as_a_part_costs_little_behind_damage() -> io::Result<()> {
    let [one, two] = ["WARC/1.0 one", "WARC/1.0 two"];
    let mut named = GzBuilder::new()
        .extra(vec![1, 2, 3])
        .filename("two.warc")
        .comment("a comment")
        .write(Vec::new(), Compression::default());
    named.write_all(two.as_bytes())?;
    let members = [
        gzip(one)?,
        b"\x1f\x8b\x08\x08".repeat(250_000),
        named.finish()?,
    ];

    let mut dictionary: Vec<u8> = (0..1_u32 << 20)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    dictionary.extend_from_slice(two.as_bytes());
    let mut packed = zstd::bulk::Compressor::with_dictionary(3, &dictionary)?;
    let length = (dictionary.len() as u32).to_le_bytes();
    let frames = [
        [&[0x5d, 0x2a, 0x4d, 0x18][..], &length, &dictionary].concat(),
        packed.compress(one.as_bytes())?,
        // The type of the first block is none.
        b"\x28\xb5\x2f\xfd\x00\x00\x07\x00\x00".repeat(50_000),
        packed.compress(two.as_bytes())?,
    ];
    for stored in [members.concat(), frames.concat()] {
        let mut all = unpacked(&stored)?;
        all.pass_over(one.len() as u64, 0)?;
        assert!(all.look(1).is_err());
        let begun = Instant::now();
        assert!(all.find_record()?);
        let taken = begun.elapsed();
        assert_eq!(text_of(all)?, two);
        assert!(taken < Duration::from_secs(8), "{taken:?}");
    }
    Ok(())
}
