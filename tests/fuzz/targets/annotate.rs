#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| simdb::hostile::target("annotate")(bytes));
