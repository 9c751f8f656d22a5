//! The speed at which texts become fingerprints, alone and with sketches, on one core.
//!
//! Corpus: the bundled pages of the PostgreSQL manual, as HTML, and the text between their tags. Reading
//! the file and JSON are left out. Throughput counts the bytes of the HTML for `html`, and the bytes of
//! the text for `text`.

use std::io::Read as _;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use simdb::{Fingerprinter, Scheme, SketchSize};

fn pages() -> Vec<String> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/pg-docs-html/docs.jsonl.gz"
    );
    let file = std::fs::File::open(path).expect("the bundled pages are there");
    let mut lines = String::new();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut lines)
        .expect("the bundled pages are gzip");
    let html = |line: &str| -> String {
        let page: serde_json::Value =
            serde_json::from_str(line).expect("the bundled pages are JSON");
        page["html"].as_str().expect("a page has HTML").to_owned()
    };
    lines.lines().map(html).collect()
}

/// Plain text with the words of the pages: everything outside of tags.
fn texts(pages: &[String]) -> Vec<String> {
    let outside = |page: &String| {
        page.split('<')
            .filter_map(|piece| piece.split_once('>'))
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(" ")
    };
    pages.iter().map(outside).collect()
}

fn bench(criterion: &mut Criterion) {
    let pages = pages();
    let texts = texts(&pages);
    let bytes = |texts: &[String]| Throughput::Bytes(texts.iter().map(|it| it.len() as u64).sum());
    let mut group = criterion.benchmark_group("fingerprint");
    for scheme in [
        Scheme::Simhash1,
        Scheme::Simhash2,
        Scheme::Minwise1,
        Scheme::Content1,
    ] {
        let fingerprinter = Fingerprinter::new(scheme).expect("text schemes make fingerprints");
        let first = fingerprinter
            .fingerprint_html(&pages[0])
            .expect("a page is long enough");
        let rewrapped = fingerprinter.fingerprint_html(&format!("<div>{}</div>", pages[0]));
        assert_eq!(rewrapped, Some(first));
        group.throughput(bytes(&pages));
        group.bench_function(format!("{scheme}/html/pg-docs/368"), |bencher| {
            bencher.iter(|| {
                pages
                    .iter()
                    .filter_map(|page| fingerprinter.fingerprint_html(page))
                    .count()
            });
        });
        group.throughput(bytes(&texts));
        group.bench_function(format!("{scheme}/text/pg-docs/368"), |bencher| {
            bencher.iter(|| {
                texts
                    .iter()
                    .filter_map(|text| fingerprinter.fingerprint(text))
                    .count()
            });
        });
        // With the sketch, as documents are stored.
        for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
            let both = fingerprinter.with_sketch_size(size);
            group.throughput(bytes(&pages));
            group.bench_function(
                format!("{scheme}+{}/html/pg-docs/368", size.bytes()),
                |bencher| {
                    bencher.iter(|| {
                        pages
                            .iter()
                            .filter_map(|page| both.fingerprint_and_sketch_html(page))
                            .count()
                    });
                },
            );
            group.throughput(bytes(&texts));
            group.bench_function(
                format!("{scheme}+{}/text/pg-docs/368", size.bytes()),
                |bencher| {
                    bencher.iter(|| {
                        texts
                            .iter()
                            .filter_map(|text| both.fingerprint_and_sketch(text))
                            .count()
                    });
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
