//! Copies of Parquet files: their values are those of the file, whatever they stand for, and so are their row groups.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Encoding, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int96,
    Int96Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::making::{column, strings, write_groups};
use crate::support::{Folder, TestResult, done, run};

/// The columns that Arrow has no type for, or another one, or whose values are not those of their type.
const COLUMNS: &str = "message other_name {
    REQUIRED BYTE_ARRAY id (UTF8);
    OPTIONAL BYTE_ARRAY text (UTF8);
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) long_decimal (DECIMAL(10,2));
    REQUIRED BYTE_ARRAY decimal (DECIMAL(10,2));
    REQUIRED FIXED_LEN_BYTE_ARRAY (12) interval (INTERVAL);
    REQUIRED INT96 time;
    OPTIONAL BYTE_ARRAY no_text (UTF8);
    REPEATED group tags { OPTIONAL INT32 number; }
}";

/// A text that is near to no other.
fn text(i: u64) -> String {
    let word = |j: u64| (i * 1_000 + j + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    (0..40).map(|j| format!("w{:x} ", word(j))).collect()
}

/// Writes rows of these numbers, in row groups.
fn write(path: &Path, schema: &str, groups: &[&[u64]]) -> TestResult {
    write_groups(
        path,
        schema,
        WriterProperties::default(),
        groups,
        |group, rows| {
            let texts = |of: &dyn Fn(u64) -> Vec<u8>| -> Vec<ByteArray> {
                rows.iter().map(|&row| ByteArray::from(of(row))).collect()
            };
            let fixed = |of: &dyn Fn(u64) -> Vec<u8>| -> Vec<FixedLenByteArray> {
                let arrays = texts(of);
                arrays.into_iter().map(FixedLenByteArray::from).collect()
            };
            column::<ByteArrayType>(group, &texts(&|row| format!("id {row}").into()), None)?;
            let all = vec![1; rows.len()];
            // Three neighbours have the same.
            let texts_of_rows = texts(&|row| text(row / 3).into());
            column::<ByteArrayType>(group, &texts_of_rows, Some((&all, None)))?;
            let long = |row: u64| (u128::from(row) * 12_345).to_le_bytes().to_vec();
            column::<FixedLenByteArrayType>(group, &fixed(&long), None)?;
            let short =
                |row: u64| (row as u32 * 77).to_le_bytes()[(row / 3 % 3) as usize..].to_vec();
            column::<ByteArrayType>(group, &texts(&short), None)?;
            let interval = |row: u64| (0..12).map(|byte| byte as u8 + row as u8).collect();
            column::<FixedLenByteArrayType>(group, &fixed(&interval), None)?;
            let time = |row: u64| {
                let mut time = Int96::new();
                time.set_data(row as u32, 7, 2_440_588 + row as u32 * 300);
                time
            };
            let times: Vec<Int96> = rows.iter().map(|&row| time(row)).collect();
            column::<Int96Type>(group, &times, None)?;
            let is_there: Vec<i16> = rows.iter().map(|row| i16::from(row % 4 != 1)).collect();
            let mut no_texts = texts(&|row| vec![0xff, row as u8]);
            let mut there = is_there.iter();
            no_texts.retain(|_| there.next() == Some(&1));
            column::<ByteArrayType>(group, &no_texts, Some((&is_there, None)))?;
            let (mut numbers, mut definitions, mut repetitions) = (vec![], vec![], vec![]);
            for &row in *rows {
                // None, one without a number, or two.
                let tags = [&[0_i16][..], &[1], &[2, 2]][(row / 3 % 3) as usize];
                definitions.extend(tags);
                repetitions.extend((0..tags.len()).map(|tag| i16::from(tag > 0)));
                numbers.extend(tags.iter().filter(|&&tag| tag == 2).map(|_| row as i32));
            }
            let levels = (&definitions[..], Some(&repetitions[..]));
            column::<Int32Type>(group, &numbers, Some(levels))
        },
    )?;
    Ok(())
}

/// A column: its name, its levels and its values.
type Raw = (String, Vec<i16>, Vec<i16>, Vec<String>);

fn raw<T: DataType>(mut of: ColumnReaderImpl<T>, to: &mut Raw) -> Result<(), ParquetError> {
    let (mut definitions, mut repetitions, mut values) = (vec![], vec![], vec![]);
    of.read_records(
        1 << 20,
        Some(&mut definitions),
        Some(&mut repetitions),
        &mut values,
    )?;
    to.1.extend(definitions);
    to.2.extend(repetitions);
    to.3.extend(values.iter().map(|value| format!("{value:?}")));
    Ok(())
}

/// The first columns of a file, so many, and the rows of its row groups.
fn read(path: &Path, columns: usize) -> TestResult<(Vec<Raw>, Vec<i64>)> {
    let file = SerializedFileReader::new(File::open(path)?)?;
    let mut all = vec![Raw::default(); columns];
    let mut rows = Vec::new();
    for index in 0..file.num_row_groups() {
        let group = file.get_row_group(index)?;
        rows.push(group.metadata().num_rows());
        for (column, to) in all.iter_mut().enumerate() {
            let of = group.metadata().column(column).column_path().string();
            to.0 = of;
            match group.get_column_reader(column)? {
                ColumnReader::Int32ColumnReader(of) => raw(of, to)?,
                ColumnReader::Int96ColumnReader(of) => raw(of, to)?,
                ColumnReader::ByteArrayColumnReader(of) => raw(of, to)?,
                ColumnReader::FixedLenByteArrayColumnReader(of) => raw(of, to)?,
                _ => return Err("no such column was written".into()),
            }
        }
    }
    Ok((all, rows))
}

/// Values were copied as those of types of Arrow: decimals in more bytes than they need made a file that nobody could
/// read, intervals lost their months, decimals of any length ended the program, and texts that are not UTF-8 the work.
#[test]
fn values_are_copied_whatever_they_stand_for() -> TestResult {
    const COUNT: usize = 8;
    let folder = Folder::new()?;
    let [input, expected, output, annotated] =
        ["in", "expected", "out", "annotated"].map(|name| folder.path(&format!("{name}.parquet")));
    let rows: Vec<u64> = (0..60).collect();
    let kept: Vec<u64> = (0..60).filter(|row| row % 3 == 0).collect();
    write(&input, COLUMNS, &[&rows[..25], &rows[25..]])?;
    write(&expected, COLUMNS, &[&kept])?;
    done!("dedup", &input, "--output", &output);
    let (found, groups) = read(&output, COUNT)?;
    assert!(found == read(&expected, COUNT)?.0);
    assert_eq!(groups, [20]);
    done!("dedup", &input, "--output", &annotated, "--annotate");
    let (found, groups) = read(&annotated, COUNT)?;
    assert!(found == read(&input, COUNT)?.0);
    assert_eq!(groups, [60]);
    // Other programs give the columns together another name.
    let other = folder.path("other.parquet");
    write(&other, &COLUMNS.replace("other_name", "schema"), &[&[90]])?;
    let both = folder.path("both.parquet");
    done!("dedup", &input, &other, "--output", &both);
    let together: Vec<u64> = kept.into_iter().chain([90]).collect();
    write(&expected, COLUMNS, &[&together])?;
    assert!(read(&both, COUNT)? == read(&expected, COUNT)?);
    Ok(())
}

/// The lengths of values were not compared with that of their column: a bit that was wrong made a copy that nobody
/// could read, or with other values.
#[test]
fn values_of_another_length_than_their_column_are_damage() -> TestResult {
    const SCHEMA: &str =
        "message m { REQUIRED BYTE_ARRAY text (UTF8); REQUIRED FIXED_LEN_BYTE_ARRAY (8) value; }";
    let folder = Folder::new()?;
    let path = folder.path("in.parquet");
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("value".into(), Encoding::DELTA_BYTE_ARRAY);
    let texts: Vec<ByteArray> = (0..100).map(|row| text(row).into_bytes().into()).collect();
    let value = |row: u64| (row * 0x0101_0101).to_le_bytes().to_vec();
    let values: Vec<ByteArray> = (0..100).map(|row| value(row).into()).collect();
    let values: Vec<_> = values.into_iter().map(FixedLenByteArray::from).collect();
    let metadata = write_groups(&path, SCHEMA, properties.build(), [()], |group, ()| {
        column::<ByteArrayType>(group, &texts, None)?;
        column::<FixedLenByteArrayType>(group, &values, None)
    })?;
    let pages = metadata.row_group(0).column(1);
    let begin = usize::try_from(pages.data_page_offset())?;
    let end = begin + usize::try_from(pages.compressed_size())?;
    let whole = fs::read(&path)?;
    let output = folder.path("out.parquet");
    let mut is_refused = 0;
    for at in (begin..end).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged)?;
        let ran = run!("dedup", &path, "--output", &output);
        match ran.code {
            Some(0) => {
                let values = read_values(&output)?;
                assert!(
                    values.len() == 100 && values.iter().all(|value| value.len() == 8),
                    "{at}"
                );
                fs::remove_file(&output)?;
            }
            code => {
                assert_eq!(code, Some(2), "{at}: {}", ran.err);
                fs::remove_dir_all(folder.path("out.parquet.dedup"))?;
                is_refused += 1;
            }
        }
    }
    assert!(is_refused > 3, "{is_refused}");
    Ok(())
}

/// The values of the second column.
fn read_values(path: &Path) -> TestResult<Vec<Vec<u8>>> {
    let file = SerializedFileReader::new(File::open(path)?)?;
    let mut values = Vec::new();
    for group in 0..file.num_row_groups() {
        let of = file.get_row_group(group)?.get_column_reader(1)?;
        let ColumnReader::FixedLenByteArrayColumnReader(mut of) = of else {
            return Err("it has another type".into());
        };
        let mut read: Vec<FixedLenByteArray> = Vec::new();
        of.read_records(1_000, None, None, &mut read)?;
        values.extend(read.iter().map(|value| value.data().to_vec()));
    }
    Ok(values)
}

/// The first file gave all row groups the number of rows of its own: of one row each, or as many as there are.
#[test]
fn row_groups_stay_unless_they_are_small() -> TestResult {
    let folder = Folder::new()?;
    let texts = |rows: std::ops::Range<u64>| strings(rows.map(text));
    let file = |name: &str, rows: &[usize], columns: &[(&str, ArrayRef)]| {
        let path = folder.path(name);
        let batch = RecordBatch::try_from_iter(columns.to_vec())?;
        let mut writer = ArrowWriter::try_new(File::create(&path)?, batch.schema(), None)?;
        let mut begin = 0;
        for &rows in rows {
            writer.write(&batch.slice(begin, rows))?;
            writer.flush()?;
            begin += rows;
        }
        writer.close()?;
        Ok::<PathBuf, Box<dyn std::error::Error>>(path)
    };
    let groups_of = |inputs: &[PathBuf]| {
        let output = folder.path("out.parquet");
        done!("dedup", ..inputs, "--output", &output);
        let file = SerializedFileReader::new(File::open(&output)?)?;
        let groups = file.metadata().row_groups().iter();
        fs::remove_file(&output)?;
        Ok::<Vec<i64>, Box<dyn std::error::Error>>(groups.map(RowGroupMetaData::num_rows).collect())
    };
    let empty = file("0.parquet", &[], &[("text", texts(0..0))])?;
    let one = file("1.parquet", &[1], &[("text", texts(0..1))])?;
    let large = file(
        "2.parquet",
        &[1_500, 1_500, 600],
        &[("text", texts(1..3_601))],
    )?;
    assert_eq!(
        groups_of(&[empty.clone(), one.clone(), large.clone()])?,
        [1, 1_500, 1_500, 600]
    );
    assert_eq!(groups_of(&[large, one])?, [1_500, 1_500, 601]);
    let mut small = vec![empty];
    for row in 0..30 {
        small.push(file(
            &format!("s{row}.parquet"),
            &[1],
            &[("text", texts(row..row + 1))],
        )?);
    }
    assert_eq!(groups_of(&small)?, [30]);
    // What numbers of one byte stand for would be too many together.
    let names: Vec<String> = (0..100).map(|row| format!("c{row}")).collect();
    let categories: DictionaryArray<Int8Type> = names.iter().map(|name| &**name).collect();
    let columns = [
        ("text", texts(0..100)),
        ("category", Arc::new(categories) as ArrayRef),
    ];
    let with_categories = file("c.parquet", &[50, 50], &columns)?;
    assert_eq!(groups_of(&[with_categories])?, [50, 50]);
    Ok(())
}

/// Whoever reads columns within columns calls itself. 8 KB of a file ended the process that read them.
#[test]
fn columns_within_too_many_others_are_refused() -> TestResult {
    let folder = Folder::new()?;
    let nested = |name: &str, depth: usize| {
        let path = folder.path(name);
        let made = path.clone();
        let make = move || -> Result<(), ParquetError> {
            let number = Type::primitive_type_builder("number", PhysicalType::INT32).build()?;
            let mut column: TypePtr = Arc::new(number);
            for _ in 0..depth {
                let group = Type::group_type_builder("g").with_repetition(Repetition::OPTIONAL);
                column = Arc::new(group.with_fields(vec![column]).build()?);
            }
            let root = Type::group_type_builder("schema").with_fields(vec![column]);
            let properties = Arc::new(WriterProperties::builder().build());
            let file = File::create(made)?;
            SerializedFileWriter::new(file, Arc::new(root.build()?), properties)?.close()?;
            Ok(())
        };
        let thread = thread::Builder::new().stack_size(1 << 28).spawn(make)?;
        thread.join().expect("no panic")?;
        Ok::<PathBuf, Box<dyn std::error::Error>>(path)
    };
    let deep = nested("deep.parquet", 3_000)?;
    let output = folder.path("out.parquet");
    for ran in [
        run!("ingest", folder.path("d.simdb"), &deep),
        run!("dedup", &deep, "--output", &output),
        run!("import", folder.path("i.simdb"), &deep),
    ] {
        ran.refused("columns within more than 100 others");
    }
    let flat = nested("flat.parquet", 90)?;
    run!("import", folder.path("i.simdb"), &flat).refused("it has no column `key`");
    Ok(())
}
