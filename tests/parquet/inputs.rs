//! Parquet files as inputs: their rows are records like lines of JSON, and survive a cleaning unchanged.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use simdb::ingest::{Event, Ingest, ReadOptions, Records};
use simdb::{CreateOptions, Database};

use crate::int96::write_int96;
use crate::making::{array, column, integers, strings, write_batch, write_groups};
use crate::support::{Folder, Ran, TestResult, done, figures, run};
#[cfg(unix)]
use crate::support::{LIMIT, within};

/// A text of which others differ in some words.
fn text(i: u64) -> String {
    let word = |j: u64| ((i / 3 + 1) * 7919 + j * 104_729) % 5_003;
    (0..80)
        .map(|j| {
            if j == i % 3 * 20 + 5 {
                format!("other{i} ")
            } else {
                format!("w{} ", word(j))
            }
        })
        .collect()
}

pub(crate) fn columns(rows: u64, text_column: &'static str) -> Vec<(&'static str, ArrayRef)> {
    let texts = (0..rows).map(|i| (i % 50 != 7).then(|| text(i)));
    vec![
        ("id", integers((0..rows).map(|i| i as i64 + 1_000))),
        (
            "quality",
            array(Float64Array::from_iter_values(
                (0..rows).map(|i| i as f64 / 3.0),
            )),
        ),
        (text_column, array(StringArray::from_iter(texts))),
        (
            "seen",
            array(TimestampMicrosecondArray::from_iter_values(
                (0..rows).map(|i| i as i64 * 1_500_000),
            )),
        ),
        (
            "good",
            array(BooleanArray::from_iter((0..rows).map(|i| Some(i % 2 == 1)))),
        ),
    ]
}

/// The same records as lines.
pub(crate) fn lines(rows: u64) -> String {
    let line = |i: u64| {
        let text = if i % 50 == 7 {
            serde_json::Value::Null
        } else {
            text(i).into()
        };
        serde_json::json!({"id": i + 1_000, "text": text, "seen": i * 3 / 2}).to_string() + "\n"
    };
    (0..rows).map(line).collect()
}

pub(crate) fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) -> TestResult {
    write_packed(path, columns, Compression::SNAPPY)
}

fn write_packed(
    path: &Path,
    columns: Vec<(&str, ArrayRef)>,
    compression: Compression,
) -> TestResult {
    let batch = RecordBatch::try_from_iter(columns)?;
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(700))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            "made.by".to_owned(),
            "a test".to_owned(),
        )]))
        .build();
    write_batch(path, &batch, Some(properties))
}

/// All rows of a file, each as a text, with what the file says of itself.
fn rows(path: &Path) -> TestResult<(Vec<String>, String)> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let metadata = builder.metadata();
    let texts = metadata
        .file_metadata()
        .key_value_metadata()
        .cloned()
        .unwrap_or_default();
    let packing: Vec<Vec<Compression>> = metadata
        .row_groups()
        .iter()
        .map(|it| {
            it.columns()
                .iter()
                .map(ColumnChunkMetaData::compression)
                .collect()
        })
        .collect();
    let told = format!("{:?} {:?} {texts:?}", builder.schema(), packing.first());
    let mut rows = Vec::new();
    for batch in builder.build()? {
        let batch = batch?;
        rows.extend(
            (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1).columns())),
        );
    }
    Ok((rows, told))
}

#[test]
fn rows_are_ingested_as_lines_of_json_are() -> TestResult {
    let folder = Folder::new()?;
    let [parquet, other, jsonl] = ["a.parquet", "b.parquet", "a.jsonl"].map(|it| folder.path(it));
    write(&parquet, columns(2_000, "text"))?;
    write_packed(
        &other,
        columns(2_000, "content"),
        Compression::GZIP(Default::default()),
    )?;
    fs::write(&jsonl, lines(2_000))?;
    let dump = |name: &str| -> TestResult<String> {
        let dump = done!("dump", folder.path(name)).out;
        Ok(dump
            .split_once('\n')
            .map_or(String::new(), |it| it.1.to_owned()))
    };
    for (name, input, field) in [
        ("1.simdb", &parquet, "text"),
        ("2.simdb", &other, "content"),
        ("3.simdb", &jsonl, "text"),
    ] {
        done!("ingest", folder.path(name), input, "--text-field", field).says("35 more");
    }
    assert_eq!(dump("1.simdb")?, dump("3.simdb")?);
    assert_eq!(dump("2.simdb")?, dump("3.simdb")?);

    // Stopped after a batch, it goes on behind it.
    let database = Database::create(folder.path("4.simdb"), &CreateOptions::new())?;
    let mut commits = 0;
    loop {
        let records = Records::open([&parquet], ReadOptions::new())?;
        let before = commits;
        Ingest::new(&database)
            .batch(300)
            .run(records, |event| match event {
                Event::Committed { .. } => {
                    commits += 1;
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            })?;
        if commits == before {
            break;
        }
    }
    drop(database);
    assert!(commits > 5, "{commits} commits");
    assert_eq!(dump("4.simdb")?, dump("3.simdb")?);
    Ok(())
}

#[test]
fn rows_that_survive_are_copied_unchanged() -> TestResult {
    let folder = Folder::new()?;
    let [input, jsonl, output] =
        ["in.parquet", "in.jsonl", "out.parquet"].map(|it| folder.path(it));
    let [removed, of_lines] = ["removed.jsonl", "of-lines.jsonl"].map(|it| folder.path(it));
    write_packed(
        &input,
        columns(3_000, "text"),
        Compression::ZSTD(Default::default()),
    )?;
    fs::write(&jsonl, lines(3_000))?;
    folder
        .run("dedup in.parquet --output out.parquet --removed removed.jsonl --report r.html")?
        .expect(0);
    folder
        .run("dedup in.jsonl --output out.jsonl --removed of-lines.jsonl")?
        .expect(0);
    // The same records are removed as of lines.
    let list = |path: &Path, place: &str| -> TestResult<Vec<u64>> {
        let lines = fs::read_to_string(path)?;
        let numbers = lines.lines().map(|line| -> Result<u64, serde_json::Error> {
            Ok(serde_json::from_str::<serde_json::Value>(line)?[place]
                .as_u64()
                .unwrap_or(0))
        });
        Ok(numbers.collect::<Result<_, _>>()?)
    };
    let gone = list(&removed, "row")?;
    assert_eq!(gone, list(&of_lines, "line")?);
    assert!(gone.len() > 1_500 && !gone.contains(&0));
    let ((all, told), (kept, told_of_kept)) = (rows(&input)?, rows(&output)?);
    let expected: Vec<String> = (1..)
        .zip(all)
        .filter(|(row, _)| !gone.contains(row))
        .map(|it| it.1)
        .collect();
    assert!(
        kept == expected,
        "{} rows, {} expected",
        kept.len(),
        expected.len()
    );
    assert_eq!(told_of_kept, told);
    assert!(fs::read_to_string(folder.path("r.html"))?.contains("<del>[-other"));

    // Two files into one, and into a directory. The second is all duplicates.
    let both = folder.path("both.parquet");
    let again = folder.path("again.parquet");
    fs::copy(&input, &again)?;
    done!("dedup", &input, &again, "--output", &both);
    let (of_both, _) = rows(&both)?;
    // Rows without a text cannot be judged.
    assert_eq!(of_both.len(), expected.len() + 60);
    assert_eq!(of_both[..expected.len()], expected);
    fs::create_dir(folder.path("tree"))?;
    done!("dedup", &input, &again, "--output", folder.path("tree"));
    assert!(rows(&folder.path("tree/in.parquet"))?.0 == expected);
    assert_eq!(rows(&folder.path("tree/again.parquet"))?.0.len(), 60);
    Ok(())
}

#[test]
fn what_cannot_be_read_of_a_parquet_file_is_said() -> TestResult {
    let folder = Folder::new()?;
    let [input, other, output] =
        ["in.parquet", "other.parquet", "out.parquet"].map(|it| folder.path(it));
    write(&input, columns(30, "body"))?;
    run!("dedup", &input, "--output", &output)
        .refused("--text-field")
        .says("quality, body, seen");
    // The right command is not taken for another run.
    done!("dedup", &input, "--output", &output, "--text-field body");
    folder
        .run("ingest d.simdb in.parquet --text-field body --input-format tsv")?
        .refused("is a Parquet file");
    // Files of other columns do not fit into one.
    write(&other, columns(30, "text"))?;
    let both = folder.run("dedup in.parquet other.parquet --output 2.parquet --text-field body")?;
    both.refused("other.parquet");
    folder.file("a.jsonl", lines(9))?;
    folder
        .run("dedup other.parquet a.jsonl --output 3.parquet")?
        .refused("let the output be a directory");
    // A text that is no UTF-8 is rejected, and its row stays.
    let texts = array(BinaryArray::from_iter_values([
        &b"\xff\xfe no text"[..],
        text(1).as_bytes(),
    ]));
    let odd = folder.path("odd.parquet");
    write(&odd, vec![("text", texts)])?;
    let ran = run!("dedup", &odd, "--output", folder.path("odd.out"));
    ran.expect(0).says("UTF-8").says("odd.parquet, row 1");
    assert_eq!(rows(&folder.path("odd.out"))?.0.len(), 2);
    // Damage and cut files are errors.
    let bytes = fs::read(&other)?;
    for (name, bytes) in [
        ("cut.parquet", &bytes[..bytes.len() / 2]),
        ("four.parquet", &bytes[..4]),
    ] {
        let path = folder.file(name, bytes)?;
        run!("dedup", &path, "--output", folder.path("cut.out")).refused(name);
    }
    // Nothing at all is fine.
    let none = folder.path("none.parquet");
    write(&none, columns(0, "text"))?;
    done!("dedup", &none, "--output", folder.path("none.out")).says("");
    assert!(rows(&folder.path("none.out")).is_ok() || folder.path("none.out").exists());
    Ok(())
}

/// Each row was once rejected by itself, since such a column is passed over.
#[test]
fn a_file_of_which_no_row_could_be_a_document_is_refused_once() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("in.parquet");
    let lists = || -> ArrayRef {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for row in 0..3u64 {
            builder.values().append_value(text(row));
            builder.append(true);
        }
        array(builder.finish())
    };
    let texts = || strings([text(0), text(3), text(6)]);
    let ids = || integers([1, 2, 3]);
    let floats = || array(Float64Array::from(vec![0.5, 1.5, 2.5]));
    let decimals = || -> TestResult<ArrayRef> {
        Ok(array(
            Decimal128Array::from(vec![1, 2, 3]).with_precision_and_scale(20, 0)?,
        ))
    };
    let list = "its column `text` is a list (type List";
    let no_key = "number (type ";
    type Columns<'c> = Vec<(&'c str, ArrayRef)>;
    let refused: [(Columns<'_>, &[&str], &str); 6] = [
        (vec![("id", ids()), ("text", lists())], &[], list),
        (
            vec![("id", ids()), ("text", floats())],
            &[],
            "its column `text` is a floating-point number (type Float64",
        ),
        (
            vec![("id", ids()), ("text", texts()), ("body", lists())],
            &["--text-field", "body"],
            "its column `body`",
        ),
        (vec![("id", decimals()?), ("text", texts())], &[], no_key),
        (vec![("id", floats()), ("text", texts())], &[], no_key),
        (
            vec![("name", lists()), ("text", texts())],
            &["--key-field", "name"],
            "its column `name` is a list",
        ),
    ];
    for (columns, arguments, says) in refused {
        write(&input, columns)?;
        let database = folder.path("d.simdb");
        let ran = run!("ingest", &database, &input, ..arguments).expect(2);
        assert_eq!(ran.err.matches(says).count(), 1, "{}", ran.err);
        assert!(ran.err.contains("-field` names another of"), "{}", ran.err);
    }
    // What is beside a column that can be read does not matter, nor do keys where places name the records.
    write(
        &input,
        vec![
            ("id", ids()),
            ("key", decimals()?),
            ("text", texts()),
            ("html", lists()),
        ],
    )?;
    done!("ingest", folder.path("d.simdb"), &input);
    write(&input, vec![("id", decimals()?), ("text", texts())])?;
    done!("dedup", &input, "--output", folder.path("out.parquet"));
    Ok(())
}

#[test]
fn what_only_has_the_name_of_a_parquet_file_or_is_encrypted_is_told() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    run!("ingest", &database, folder.file("empty.parquet", "")?)
        .refused("Parquet file, but is empty");
    run!("ingest", &database, folder.file("text.parquet", "a\n")?).refused("does not begin as one");
    let encrypted = folder.file("secret.parquet", b"PARE\0\0\0\0....PARE")?;
    run!("ingest", &database, &encrypted).refused("is an encrypted Parquet file");
    Ok(())
}

/// Such a column ended `dedup` by a panic when its rows were to be written, and then it was refused.
#[test]
fn times_of_int96_are_read_and_copied() -> TestResult {
    let folder = Folder::new()?;
    let [input, output] = ["in.parquet", "out.parquet"].map(|it| folder.path(it));
    let texts = [text(0), text(3)];
    let rows = [
        ("a", 1, texts[0].as_str(), 16_725_225_600),
        ("b", 2, texts[1].as_str(), -62_135_596_800),
    ];
    write_int96(&input, &rows)?;
    done!("dedup", &input, "--output", &output);
    done!("ingest", folder.path("d.simdb"), &output);
    for (key, _, _, seen) in rows {
        done!("get", folder.path("d.simdb"), key).prints(&seen.to_string());
    }
    Ok(())
}

/// They were refused when the first rows of the second file were to be written, after all the work.
#[test]
fn files_of_different_columns_are_refused_before_the_cleaning() -> TestResult {
    let folder = Folder::new()?;
    let [text_of, page_of] = ["a.parquet", "b.parquet"].map(|it| folder.path(it));
    for (path, column) in [(&text_of, "text"), (&page_of, "html")] {
        let texts = strings([text(0), text(3)]);
        let batch = RecordBatch::try_from_iter([(column, texts)])?;
        write_batch(path, &batch, None)?;
    }
    let output = folder.path("out.parquet");
    run!("dedup", &text_of, &page_of, "--output", &output)
        .refused("b.parquet: its columns are not those of ")
        .says("let the output be a directory");
    assert!(!output.exists() && !folder.path("out.parquet.dedup").exists());
    done!("dedup", &text_of, &page_of, "--output", folder.path("out/"));
    Ok(())
}

#[test]
fn whole_numbers_of_every_width_are_keys() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("in.parquet");
    let texts = || strings([text(0), text(3)]);
    let ids: [(ArrayRef, [&str; 2]); 2] = [
        (
            array(UInt64Array::from(vec![7, u64::MAX])),
            ["7", "18446744073709551615"],
        ),
        (array(Int8Array::from(vec![-8, 9])), ["-8", "9"]),
    ];
    for (column, keys) in ids {
        write(&input, vec![("id", column), ("text", texts())])?;
        done!("ingest", folder.path("d.simdb"), &input);
        for key in keys {
            done!("get", folder.path("d.simdb"), "--", key);
        }
    }
    Ok(())
}

/// The keys that survive of three copies with the values of a column, by an order, and what was said.
fn survivors(
    folder: &Folder,
    name: &str,
    values: ArrayRef,
    order: &str,
) -> TestResult<(Vec<i64>, String)> {
    let [input, output] = ["in.parquet", "out.parquet"].map(|it| folder.path(it));
    _ = fs::remove_file(&output);
    let ids = integers([1, 2, 3]);
    let texts = strings(vec![text(0); 3]);
    write(&input, vec![("id", ids), ("text", texts), (name, values)])?;
    let ran = run!("dedup", &input, "-o", &output, "--survivor", order);
    let mut kept = Vec::new();
    if output.exists() {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(&output)?)?.build()? {
            let batch = batch?;
            let ids = batch.column(0).as_any().downcast_ref::<Int64Array>();
            kept.extend(ids.ok_or("the keys are whole numbers")?.values().iter());
        }
    }
    Ok((kept, ran.err))
}

fn ranks(lists: [&[Option<i64>]; 3]) -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    for list in lists {
        builder.append_value(list.iter().copied());
    }
    array(builder.finish())
}

/// Decimal numbers with two digits behind the point.
fn decimals(hundredths: Vec<i128>) -> TestResult<ArrayRef> {
    let numbers = Decimal128Array::from(hundredths).with_precision_and_scale(20, 2)?;
    Ok(Arc::new(numbers))
}

/// Such columns were once passed over, so the first record survived, and nothing was said.
#[test]
fn ranks_and_times_decide_in_whatever_type_a_column_holds_them() -> TestResult {
    let folder = Folder::new()?;
    let good: [(&str, ArrayRef, &str); 8] = [
        (
            "rank",
            array(Float64Array::from(vec![1.0, 3.0, -2.0])),
            "rank",
        ),
        (
            "rank",
            array(Float32Array::from(vec![Some(1.0), Some(3.0), None])),
            "rank",
        ),
        (
            "rank",
            array(Float64Array::from(vec![f64::NAN, 3.0, f64::NAN])),
            "rank",
        ),
        ("rank", decimals(vec![100, 300, -200])?, "rank"),
        (
            "rank",
            ranks([
                &[Some(1), Some(9)],
                &[Some(3), Some(0)],
                &[Some(3), Some(-1)],
            ]),
            "rank",
        ),
        (
            "time",
            array(Date32Array::from(vec![-1, 20_000, 19_999])),
            "latest",
        ),
        (
            "seen",
            array(Float64Array::from(vec![1.5e9, 1.7e9, 1.6e9])),
            "latest",
        ),
        (
            "time",
            decimals(vec![150_000_000_050, 170_000_000_050, 160_000_000_050])?,
            "latest",
        ),
    ];
    for (name, values, order) in good {
        let told = format!("{:?}", values.data_type());
        let (kept, said) = survivors(&folder, name, values, order)?;
        assert_eq!(kept, [2], "{name}, {told}: {said}");
    }
    // What is no rank and no time is told as of lines of JSON, where they are asked for.
    let a_rank = "field `rank`: a whole number or a list of them is wanted";
    let a_time = "field `time`: a number of Unix seconds";
    let refused: [(&str, ArrayRef, &str, &str); 6] = [
        (
            "rank",
            array(Float64Array::from(vec![0.5, 3.5, 0.25])),
            "rank",
            a_rank,
        ),
        (
            "rank",
            array(Float64Array::from(vec![1e300, f64::INFINITY, -1e300])),
            "rank",
            a_rank,
        ),
        ("rank", decimals(vec![50, 350, 25])?, "rank", a_rank),
        (
            "rank",
            array(BooleanArray::from(vec![true, false, true])),
            "rank",
            a_rank,
        ),
        (
            "rank",
            ranks([&[None], &[Some(3), None], &[None]]),
            "rank",
            a_rank,
        ),
        (
            "time",
            array(BooleanArray::from(vec![true, false, true])),
            "latest",
            a_time,
        ),
    ];
    for (name, values, order, says) in refused {
        let told = format!("{:?}", values.data_type());
        // Where nothing depends on them, they are no reason not to judge a record.
        let (kept, _) = survivors(&folder, name, Arc::clone(&values), "longest")?;
        assert_eq!(kept, [1], "{name}, {told}");
        let (_, said) = survivors(&folder, name, values, order)?;
        assert!(said.contains(says), "{name}, {told}: {said}");
    }
    Ok(())
}

#[test]
fn ranks_and_times_of_every_type_are_stored() -> TestResult {
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    let ids = strings(["a", "b"]);
    let texts = strings([text(0), text(3)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", ids),
        ("text", texts),
        ("rank", array(Float64Array::from(vec![7.0, -3.0]))),
        ("time", array(Date32Array::from(vec![1, 20_000]))),
        ("repeats", array(Float64Array::from(vec![Some(5.0), None]))),
    ];
    write(&input, columns)?;
    done!("ingest", &database, &input);
    let a = done!("get", &database, "a --json").last()?;
    assert_eq!(a["rank"], serde_json::json!([7]), "{a}");
    assert_eq!(figures(&a, ["seen", "repeats"]), [86_400, 5]);
    let b = done!("get", &database, "b --json").last()?;
    assert_eq!(b["rank"], serde_json::json!([-3]), "{b}");
    assert_eq!(b["seen"], 1_728_000_000);
    Ok(())
}

/// One such column once kept every row from being judged.
#[test]
fn bytes_in_a_column_that_is_not_the_text_do_not_matter() -> TestResult {
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    let bytes = || array(BinaryArray::from_iter_values([&b"\xff\xfe"[..], b"\0\0"]));
    let columns = || -> Vec<(&str, ArrayRef)> {
        vec![
            ("id", strings(["a", "b"])),
            ("text", strings([text(0), text(3)])),
        ]
    };
    for name in [
        "url",
        "html",
        "features",
        "fingerprint",
        "sketch",
        "scope",
        "group",
        "rank",
        "time",
    ] {
        // The second value is UTF-8 by chance, and is what these are in lines of JSON.
        let odd = array(BinaryArray::from(vec![Some(&b"\xff\xfe"[..]), None]));
        let values = match name {
            "scope" | "rank" | "time" => odd,
            _ => bytes(),
        };
        let mut columns = columns();
        columns.push((name, values));
        write(&input, columns)?;
        _ = fs::remove_file(&database);
        let ran = done!("ingest", &database, &input, "--json");
        ran.counts(["inserted", "rejected"], [2, 0]);
    }
    // A payload is stored as it is.
    let mut with_payload = columns();
    with_payload.push(("payload", bytes()));
    write(&input, with_payload)?;
    _ = fs::remove_file(&database);
    done!("ingest", &database, &input);
    let a = done!("get", &database, "a --json").last()?;
    assert_eq!(a["payload_base64"], "//4=");
    // A page in another encoding is read as a file of it is.
    let page = |encoding: &str, word: &[u8]| {
        let head = format!("<!DOCTYPE html><meta charset={encoding}><p>");
        let rest = format!(" {}", text(0));
        [head.as_bytes(), word, rest.as_bytes()].concat()
    };
    let pages = [
        page("windows-1251", b"\xcf\xf0\xe8\xe2\xe5\xf2"),
        page("utf-8", "Привет".as_bytes()),
    ];
    let pages = array(BinaryArray::from_iter_values(pages));
    let columns_of_pages: [(&str, &[&str]); 2] = [("html", &[]), ("raw", &["--html-field", "raw"])];
    for (name, arguments) in columns_of_pages {
        write(
            &input,
            vec![("id", integers([1, 2])), (name, Arc::clone(&pages))],
        )?;
        done!("dedup --list --max-distance 0", &input, ..arguments)
            .says("1 group of near-duplicates with 2 records");
    }
    // The advice is for a column.
    let texts = array(BinaryArray::from_iter_values([
        &b"ab\xff"[..],
        text(3).as_bytes(),
    ]));
    write(
        &input,
        vec![("id", columns()[0].1.clone()), ("text", texts)],
    )?;
    done!("ingest", &database, &input)
        .says("the text is not UTF-8 (byte 3); write its column as STRING")
        .says_no("iconv");
    Ok(())
}

/// One such text used to be the damage of its file.
#[test]
fn a_text_that_is_not_utf8_is_rejected_whatever_its_column_says() -> TestResult {
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    let schema =
        "message m { REQUIRED BYTE_ARRAY id (UTF8); OPTIONAL BYTE_ARRAY text (UTF8) = 7; }";
    let texts = [
        text(0).into_bytes(),
        b"ab\xff".to_vec(),
        text(3).into_bytes(),
    ];
    write_groups(
        &input,
        schema,
        WriterProperties::default(),
        [texts],
        |group, texts| {
            column::<ByteArrayType>(group, &["a", "b", "c"].map(ByteArray::from), None)?;
            column::<ByteArrayType>(group, &texts.map(ByteArray::from), Some((&[1; 3], None)))
        },
    )?;
    let ran = done!("ingest", &database, &input, "--json");
    ran.counts(["inserted", "rejected"], [2, 1]);
    ran.says("row 2: the text is not UTF-8 (byte 3)");
    Ok(())
}

/// Texts that together are more than 2 GiB used to be the damage of their file, and each took several times its length.
#[test]
fn long_texts_are_rejected_one_by_one() -> TestResult {
    const LONG: u64 = 34 << 20;
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    // The file has the long text once.
    let texts = [text(0), "long ".repeat(LONG as usize / 5 + 1), text(3)];
    let numbers = (0..66).map(|i| match i {
        0 => 0,
        65 => 2,
        _ => 1,
    });
    let numbers = Int32Array::from_iter_values(numbers);
    let texts = DictionaryArray::new(numbers, array(StringArray::from(texts.to_vec())));
    let columns: Vec<(&str, ArrayRef)> = vec![("id", integers(0..66)), ("text", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns)?;
    let properties = WriterProperties::builder()
        .set_dictionary_page_size_limit(1 << 30)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    write_batch(&input, &batch, Some(properties))?;
    assert!(input.metadata()?.len() < 2 * LONG);
    let ran = done!("ingest", &database, &input, "--max-record 1000000 --json");
    ran.counts(["inserted", "rejected"], [2, 64]);
    // As a line of JSON is long, with its line end.
    ran.says("row 2: the record has 35651604 bytes");
    Ok(())
}

/// What stands in the place of a missing value was counted. So rows before a long one were neither stored nor rejected.
#[test]
fn a_row_beside_a_long_one_is_not_lost() -> TestResult {
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    let long = format!("<p>{}", "w x y z ".repeat(200));
    for (texts, pages) in [
        (
            [Some(text(0)), None, Some(text(2))],
            [None, Some(long.clone()), None],
        ),
        (
            [None, Some(long.clone()), Some(text(2))],
            [Some(text(0)), None, None],
        ),
        (
            [Some(text(0)), Some(text(2)), None],
            [None, None, Some(long.clone())],
        ),
    ] {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from_iter_values(0..3))),
            ("text", Arc::new(StringArray::from(texts.to_vec()))),
            ("html", Arc::new(StringArray::from(pages.to_vec()))),
        ];
        write(&input, columns)?;
        _ = fs::remove_file(&database);
        done!("ingest", &database, &input, "--max-record 1000 --json")
            .counts(["inserted", "rejected"], [2, 1]);
    }
    Ok(())
}

#[test]
fn keys_that_are_bytes_name_their_rows() -> TestResult {
    let folder = Folder::new()?;
    let [input, database] = ["in.parquet", "d.simdb"].map(|it| folder.path(it));
    let uuid: Vec<u8> = (0..16).map(|byte| byte * 16 + 15).collect();
    let uuid_text = "0f1f2f3f-4f5f-6f7f-8f9f-afbfcfdfefff";
    let sha1 = vec![0xff; 20];
    let sha1_text = "/".repeat(26) + "8=";
    let cases: [(&str, &str, &[u8], &str, &str); 4] = [
        ("id (UUID)", "", &uuid, "key", uuid_text),
        ("doc (UUID)", "--key-field doc", &uuid, "key", uuid_text),
        ("url", "", &sha1, "key_base64", &sha1_text),
        ("sha", "--key-field sha", &sha1, "key_base64", &sha1_text),
    ];
    for (kind, options, bytes, key, value) in cases {
        let length = bytes.len();
        let schema = format!(
            "message m {{ REQUIRED FIXED_LEN_BYTE_ARRAY ({length}) {kind}; REQUIRED BYTE_ARRAY text (UTF8); }}"
        );
        write_groups(
            &input,
            &schema,
            WriterProperties::default(),
            [bytes],
            |group, bytes| {
                let keys = [FixedLenByteArray::from(bytes.to_vec())];
                column::<FixedLenByteArrayType>(group, &keys, None)?;
                column::<ByteArrayType>(group, &[ByteArray::from(text(0).into_bytes())], None)
            },
        )?;
        _ = fs::remove_file(&database);
        done!("ingest", &database, &input, ..options.split_whitespace());
        let dumped = done!("dump", &database).last()?;
        assert_eq!(dumped[key], value, "{kind}: {dumped}");
    }
    Ok(())
}

#[test]
fn a_column_that_is_named_and_not_there_is_told() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("in.parquet");
    write(&input, columns(30, "text"))?;
    folder
        .run("ingest d.simdb in.parquet --text-field body")?
        .refused("it has no column `body`; `--text-field` names another of id, quality, text");
    Ok(())
}

/// Spark writes `_SUCCESS` beside its files, which was taken for a text without words.
#[test]
fn the_marks_of_a_job_are_no_documents() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir(folder.path("job"))?;
    write(&folder.path("job/part-0.parquet"), columns(40, "text"))?;
    for name in [
        "_SUCCESS",
        "_committed_1",
        "_started_1",
        ".part-0.parquet.crc",
    ] {
        fs::write(folder.path("job").join(name), "")?;
    }
    done!("ingest", folder.path("d.simdb"), folder.path("job"));
    let sources = done!("sources", folder.path("d.simdb")).out;
    assert!(
        sources.lines().count() == 1 && sources.contains("part-0.parquet"),
        "{sources}"
    );
    folder.run("dedup job --output clean")?.expect(0);
    assert_eq!(fs::read_dir(folder.path("clean"))?.count(), 1);
    Ok(())
}

/// Its rows are read from behind, and who opened it waited for somebody who writes.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_imported_and_no_output() -> TestResult {
    let folder = Folder::new()?;
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path("pipe"))
        .status()?;
    assert!(made.success());
    drop(folder.database("d.simdb")?);
    for command in ["import new.simdb pipe", "export d.simdb pipe"] {
        let mut command = folder.command(command);
        let output = within(LIMIT, move || command.output())?;
        Ran::from(output).refused("pipe: ");
        assert!(!folder.path("new.simdb").exists());
    }
    Ok(())
}

/// Each row was rejected: a column of which a table of Python knows nothing has no type but null.
#[test]
fn a_column_of_nulls_counts_as_absent() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("a.parquet");
    for name in ["seen", "rank", "repeats", "scope", "payload"] {
        let nulls = array(arrow_array::NullArray::new(4));
        let texts = strings((0..4).map(text));
        let ids = integers(0..4);
        let columns = [
            ("id", ids, false),
            ("text", texts, false),
            (name, nulls, true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
        write_batch(&path, &batch, None)?;
        let database = folder.path(&format!("{name}.simdb"));
        done!("ingest", &database, &path).prints_no("rejected");
    }
    Ok(())
}
