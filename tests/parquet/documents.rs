//! `simdb export` and `simdb import`: what a Parquet file keeps of a database, and what is said of other files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt64Array,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use simdb::parquet::{Export, Import};
use simdb::{
    CreateOptions, Database, Document, Fingerprint, OpenOptions, Scheme, Sketch, SketchSize,
    UnixSeconds,
};

use crate::int96::write_int96;
use crate::making::{array, integers, strings, write_batch};
use crate::support::{
    Folder, Ran, TestResult, document, done, external, figures, go_on, insert_all, program, run,
};

/// Options for ready fingerprints, of which some have a sketch.
fn ready() -> CreateOptions {
    external().sketch_size(SketchSize::Bytes16)
}

/// Documents with all that a document can have.
fn odd_documents() -> simdb::Result<Vec<Document>> {
    let sketch = |i: u8| Sketch::new(&[i; 16], u32::from(i) + 1);
    let spread = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut all: Vec<Document> = Vec::new();
    for i in 0..20_000u64 {
        let document = document(format!("https://example.org/{i}"), spread(i / 2))
            .with_seen(1_700_000_000 + i as i64);
        all.push(document.with_sketch((i % 3 > 0).then(|| sketch(i as u8 % 200)).transpose()?));
    }
    all.extend([
        Document::new("short", None).with_seen(0),
        document("negative", u64::MAX).with_seen(-1),
        document("scoped", 1 << 63)
            .with_scope("é")
            .with_repeats(9)
            .with_rank([i64::MIN, i64::MAX]),
        document(vec![0xff, 0, 0x80], 0).with_payload(vec![0; 60_000]),
        document("far", 5)
            .with_seen(UnixSeconds::MIN)
            .with_rank([0]),
        document("farther", 5)
            .with_seen(UnixSeconds::MAX)
            .with_repeats(Document::MAX_REPEATS)
            .with_rank([1, 2, 3, 4]),
        document("", 5)
            .with_seen(UnixSeconds::MAX / 2)
            .with_scope("s".repeat(255)),
    ]);
    all.retain(|it| !it.key().is_empty());
    Ok(all)
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) -> TestResult {
    let batch = RecordBatch::try_from_iter(columns)?;
    write_batch(path, &batch, None)
}

#[test]
fn a_database_comes_back_from_parquet_as_it_was() -> TestResult {
    let folder = Folder::new()?;
    let (database, exported) = (folder.path("d.simdb"), folder.path("d.parquet"));
    let options = ready().max_distance(7).min_similarity(0.25).plan("6x21");
    insert_all(
        &Database::create(&database, &options.created(1234))?,
        odd_documents()?,
    )?;
    done!("export", &database, &exported, "--payload");
    done!("import", folder.path("copy.simdb"), &exported);
    let [before, after] = [
        run!("dump", &database),
        run!("dump", folder.path("copy.simdb")),
    ]
    .map(|it| it.expect(0).out);
    assert!(before == after, "the copy differs");
    done!("check", folder.path("copy.simdb"));
    // Without payloads, all but them.
    run!("export", &database, &exported).refused("already exists");
    done!("export", &database, &exported, "--replace").says("payloads of 1 document were left out");
    done!("import", folder.path("bare.simdb"), &exported);
    let bare = done!("dump", folder.path("bare.simdb")).out;
    let without = |line: &str| {
        line.split(",\"payload")
            .next()
            .map(|it| it.trim_end_matches('}').to_owned())
    };
    assert!(
        bare.lines().map(without).eq(before.lines().map(without)),
        "more than payloads was left out"
    );
    // Nothing else is left in the folder.
    assert_eq!(folder.count()?, 4);
    Ok(())
}

#[test]
fn an_import_into_a_database_inserts_and_replaces() -> TestResult {
    let folder = Folder::new()?;
    for (name, bits) in [("a", 1), ("b", 2)] {
        let options = CreateOptions::new().sketch_size(SketchSize::None);
        let database = Database::create(folder.path(&format!("{name}.simdb")), &options)?;
        insert_all(&database, [document(name, bits), document("both", bits)])?;
        drop(database);
        folder
            .run(&format!("export {name}.simdb {name}.parquet"))?
            .expect(0);
    }
    done!("import", folder.path("a.simdb"), folder.path("b.parquet"));
    for (key, bits) in [("both", "0000000000000002"), ("a", "0000000000000001")] {
        done!("get", folder.path("a.simdb"), key).prints(bits);
    }
    // A directory, as Spark writes it; the same key twice is no new database.
    fs::create_dir(folder.path("many"))?;
    fs::write(folder.path("many/_SUCCESS"), "")?;
    for name in ["a.parquet", "b.parquet"] {
        fs::rename(folder.path(name), folder.path("many").join(name))?;
    }
    run!("import", folder.path("n.simdb"), folder.path("many")).refused("\"both\"");
    assert!(!folder.path("n.simdb").exists());
    // Fingerprints of another make are not mixed in.
    drop(folder.database("e.simdb")?);
    run!("import", folder.path("e.simdb"), folder.path("many"))
        .refused("scheme external, not minwise-1");
    fs::create_dir(folder.path("empty"))?;
    run!("import", folder.path("n.simdb"), folder.path("empty"))
        .refused("no file in it ends in .parquet");
    Ok(())
}

#[test]
fn a_file_of_another_program_needs_a_key_and_a_fingerprint() -> TestResult {
    let folder = Folder::new()?;
    let (input, database) = (folder.path("in.parquet"), folder.path("d.simdb"));
    let keys = || strings(["a", "b", "c"]);
    let bits = || array(Int64Array::from(vec![Some(7), None, Some(-1)]));
    write(&input, vec![("key", keys()), ("fp", bits())])?;
    done!("import", &database, &input);
    let opened = Database::open(&database, &OpenOptions::new())?;
    assert_eq!(
        (opened.scheme(), opened.sketch_size()),
        (Scheme::External, SketchSize::None)
    );
    let snapshot = opened.snapshot()?;
    let found = ["a", "b", "c"].map(|key| {
        snapshot
            .get(key)
            .map(|it| it.and_then(|it| it.fingerprint()))
    });
    let expected = [Some(7), None, Some(u64::MAX)].map(|bits| bits.map(Fingerprint::from_bits));
    assert_eq!(
        found.into_iter().collect::<simdb::Result<Vec<_>>>()?,
        expected
    );
    drop((snapshot, opened));
    // Numbers without a sign have the same bits.
    let unsigned = array(UInt64Array::from(vec![7, 8, u64::MAX]));
    write(&input, vec![("key", keys()), ("fp", unsigned)])?;
    done!("import", &database, &input);
    // What is wrong with a file is said.
    write(&input, vec![("url", keys()), ("fp", bits())])?;
    run!("import", &database, &input).refused("it has no column `key`; it has url, fp");
    write(&input, vec![("key", keys()), ("fp", keys())])?;
    run!("import", &database, &input).refused("its column `fp` is of the type BYTE_ARRAY; INT64");
    let holes = array(StringArray::from(vec![Some("x"), None, Some("y")]));
    write(&input, vec![("key", holes), ("fp", bits())])?;
    run!("import", folder.path("new.simdb"), &input).refused("in.parquet: row 2: its key is null");
    assert!(!folder.path("new.simdb").exists());
    folder
        .run("import new.simdb none.parquet")?
        .refused("none.parquet");
    Ok(())
}

/// The sets of fingerprints that lines of clusters tell: of the survivor, its members with their distances.
fn sets(
    lines: &str,
    fingerprint_of: impl Fn(&str) -> String,
) -> BTreeMap<String, BTreeSet<(String, u32)>> {
    let mut sets: BTreeMap<String, BTreeSet<(String, u32)>> = BTreeMap::new();
    for line in lines.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let distance = parts[3].parse().expect("a distance");
        sets.entry(fingerprint_of(parts[2]))
            .or_default()
            .insert((fingerprint_of(parts[1]), distance));
    }
    sets
}

#[test]
fn clusters_of_a_file_of_pairs_are_those_of_the_database() -> TestResult {
    let folder = Folder::new()?;
    let (database, pairs) = (folder.path("d.simdb"), folder.path("pairs.parquet"));
    let spread = |i: u64| {
        (i + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    // Chains of up to eight, and some fingerprints that several documents have.
    let bits = |i: u64| {
        (0..i % 8).fold(spread(i / 16), |bits, j| {
            bits ^ 0b11 << ((i / 16 + 2 * j) % 62)
        })
    };
    let options = external().max_distance(3);
    insert_all(
        &Database::create(&database, &options)?,
        (0..3_000).map(|i| document(format!("k{i}"), bits(i))),
    )?;
    done!("pairs", &database, "--format parquet --output", &pairs);

    // Connected, they are the same sets.
    let of_key = |key: &str| format!("{:016x}", bits(key[1..].parse().expect("a number")));
    let expected = sets(&done!("clusters", &database, "--connected").out, of_key);
    let found = sets(
        &done!("clusters", &pairs, "--pairs --connected").out,
        str::to_owned,
    );
    let members = |sets: &BTreeMap<String, BTreeSet<(String, u32)>>| -> BTreeSet<BTreeSet<String>> {
        sets.values()
            .map(|set| set.iter().map(|it| it.0.clone()).collect())
            .collect()
    };
    assert_eq!(members(&found), members(&expected));
    assert!(found.len() > 150 && found.values().any(|set| set.len() == 8));

    // Stars: each is near to its centre, no two centres are near, and each fingerprint is in one.
    let stars = sets(&done!("clusters", &pairs, "--pairs").out, str::to_owned);
    let all: Vec<&(String, u32)> = stars.values().flatten().collect();
    assert_eq!(
        all.len(),
        members(&found).iter().map(BTreeSet::len).sum::<usize>()
    );
    assert!(stars.len() > found.len() && all.iter().all(|it| it.1 <= 3));
    let centres: Vec<u64> = stars
        .keys()
        .map(|it| u64::from_str_radix(it, 16))
        .collect::<Result<_, _>>()?;
    for (index, a) in centres.iter().enumerate() {
        assert!(centres[..index].iter().all(|b| (a ^ b).count_ones() > 3));
    }
    // Fewer pairs count.
    let nearer = sets(
        &done!("clusters", &pairs, "--pairs --max-distance 2").out,
        str::to_owned,
    );
    assert!(nearer.values().flatten().all(|it| it.1 <= 2));
    let summary = done!("clusters", &pairs, "--pairs --summary");
    assert_eq!(summary.out.lines().count(), stars.len());

    // The same in a file, of a directory of files.
    fs::create_dir(folder.path("parts"))?;
    fs::copy(&pairs, folder.path("parts/a.parquet"))?;
    let output = folder.path("clusters.parquet");
    folder
        .run("clusters parts --pairs --output clusters.parquet")?
        .expect(0)
        .says("fingerprints");
    folder
        .run("clusters pairs.parquet --pairs --max-distance 0 --output clusters.parquet")?
        .refused("already exists");
    done!("clusters", &pairs, "--pairs --output", &output, "--replace");
    let mut written: BTreeMap<String, BTreeSet<(String, u32)>> = BTreeMap::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&output)?)?.build()? {
        let batch = batch?;
        let bits = |name: &str, row| {
            let column = batch
                .column_by_name(name)
                .expect("the column")
                .as_primitive::<Int64Type>();
            format!("{:016x}", column.value(row))
        };
        let distances = batch
            .column_by_name("distance")
            .expect("the column")
            .as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            let distance = distances.value(row).cast_unsigned();
            written
                .entry(bits("survivor", row))
                .or_default()
                .insert((bits("fp", row), distance));
        }
    }
    assert_eq!(written, stars);
    Ok(())
}

#[test]
fn what_is_no_file_of_pairs_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("x.parquet");
    let numbers = |numbers: Vec<i64>| -> ArrayRef { array(Int64Array::from(numbers)) };
    let [a, b] = [numbers(vec![1, 5]), numbers(vec![3, 5])];
    run!("clusters", &path, "--pairs").refused("x.parquet");
    run!("clusters", folder.path("."), "--pairs").refused("no file in it ends in .parquet");
    fs::write(&path, "no Parquet")?;
    run!("clusters", &path, "--pairs").refused("no Parquet file");
    write(&path, vec![("fp_a", a.clone()), ("fp_b", b.clone())])?;
    run!("clusters", &path, "--pairs").refused("no column `distance`");
    write(
        &path,
        vec![
            ("fp_a", a.clone()),
            ("fp_b", b.clone()),
            ("distance", numbers(vec![1, 1])),
        ],
    )?;
    run!("clusters", &path, "--pairs").refused("differ in 0 bits, and not in 1");
    write(
        &path,
        vec![("fp_a", a), ("fp_b", b), ("distance", numbers(vec![1, 0]))],
    )?;
    let told = done!("clusters", &path, "--pairs");
    assert_eq!(told.out.lines().count(), 3);
    run!("clusters", &path, "--pairs --since 2d").refused("cannot be used with");
    run!("clusters", &path).expect(2);
    Ok(())
}

#[test]
fn a_damaged_file_is_an_error_and_no_panic() -> TestResult {
    let folder = Folder::new()?;
    let (database, exported) = (folder.path("d.simdb"), folder.path("d.parquet"));
    drop(Database::create(&database, &ready())?);
    insert_all(
        &Database::open(&database, &OpenOptions::new())?,
        odd_documents()?.into_iter().take(300),
    )?;
    done!("export", &database, &exported);
    let whole = fs::read(&exported)?;
    let damaged = folder.path("damaged.parquet");
    for length in [0, 4, 11, whole.len() / 2, whole.len() - 1] {
        fs::write(&damaged, &whole[..length])?;
        run!("import", folder.path("n.simdb"), &damaged).refused("make it again");
    }
    // The format has no checksum that is always there, so a flipped bit of a fingerprint may go unseen.
    for place in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x55;
        fs::write(&damaged, &bytes)?;
        let ran = run!("import", folder.path("n.simdb"), &damaged).says_no("panicked");
        assert_eq!(
            folder.path("n.simdb").exists(),
            ran.code == Some(0),
            "byte {place}"
        );
        _ = fs::remove_file(folder.path("n.simdb"));
    }
    Ok(())
}

/// With `--replace`, an export used to put its file in the place of the database that it was reading.
#[test]
fn an_export_never_takes_the_place_of_its_database() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &ready())?;
    insert_all(&database, [document("a", 1), document("b", 2)])?;
    fs::hard_link(&path, folder.path("other name"))?;
    let mut names = vec![path.clone(), folder.path("other name")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, folder.path("link"))?;
        names.push(folder.path("link"));
    }
    let go_on = go_on;
    for name in &names {
        let exported = Export::of(&database.snapshot()?)
            .replace(true)
            .run(name, go_on);
        assert!(
            exported.is_err_and(|it| it.to_string().contains("is the database itself")),
            "{name:?}"
        );
    }
    drop(database);
    for name in &names {
        run!("export", &path, name, "--replace").refused("is the database itself");
    }
    // The same by a process that has it open.
    let live = Database::open(&path, &OpenOptions::new().serve(true))?;
    for name in &names {
        run!("export", &path, name, "--replace").refused("is the database itself");
        run!("pairs", &path, "--output", name, "--replace").refused("is the database itself");
    }
    drop(live);
    done!("get", &path, "b");
    done!("check", &path);
    Ok(())
}

/// The column that is in the names of directories used to be lost.
#[test]
fn the_scope_may_be_in_the_names_of_directories() -> TestResult {
    let folder = Folder::new()?;
    let directories = [
        "scope=a%2Fb%20%C3%A9",
        "year=1/scope=x",
        "scope=__HIVE_DEFAULT_PARTITION__",
        "_of=1/scope=y",
    ];
    for (index, directory) in directories.iter().enumerate() {
        fs::create_dir_all(folder.path("in").join(directory))?;
        let key = strings([format!("k{index}")]);
        let bits = integers([index as i64]);
        write(
            &folder.path("in").join(directory).join("p.parquet"),
            vec![("key", key), ("fp", bits)],
        )?;
    }
    done!("import", folder.path("d.simdb"), folder.path("in"));
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    let snapshot = database.snapshot()?;
    for (index, scope) in ["a/b é", "x", "", "y"].iter().enumerate() {
        let found = snapshot.get(format!("k{index}"))?.ok_or("it is lost")?;
        assert_eq!(found.scope(), *scope);
    }
    // What would be lost is refused.
    fs::rename(folder.path("in/year=1"), folder.path("in/rank_1=1"))?;
    run!("import", folder.path("n.simdb"), folder.path("in"))
        .refused("`rank_1` is in the name of its directory");
    assert!(!folder.path("n.simdb").exists());
    Ok(())
}

/// Such a file was read forty times, and with two such links without an end.
#[cfg(unix)]
#[test]
fn links_in_a_circle_are_told() -> TestResult {
    use std::os::unix::fs::symlink;

    use crate::support::{LIMIT, within};

    let folder = Folder::new()?;
    fs::create_dir_all(folder.path("in/sub"))?;
    let numbers = |numbers: [i64; 2]| array(Int64Array::from(numbers.to_vec()));
    let keys = strings(["a", "b"]);
    write(
        &folder.path("in/sub/a.parquet"),
        vec![
            ("key", keys),
            ("fp", numbers([1, 2])),
            ("fp_a", numbers([1, 5])),
            ("fp_b", numbers([3, 5])),
            ("distance", numbers([1, 0])),
        ],
    )?;
    // These are no loops, and what is hidden is not looked at.
    symlink("sub/a.parquet", folder.path("in/b.parquet"))?;
    symlink("sub", folder.path("in/c"))?;
    symlink("..", folder.path("in/sub/_hidden"))?;
    symlink("nowhere", folder.path("in/gone"))?;
    let ran = |command: &str| -> TestResult<Ran> {
        let mut command = folder.command(command);
        Ok(Ran::from(within(LIMIT, move || command.output())?))
    };
    let import = "import d.simdb in";
    let clusters = "clusters in --pairs";
    let opened = Import::open([folder.path("in")])?;
    assert_eq!(opened.rows(), 6);
    assert_eq!(ran(clusters)?.expect(0).out.lines().count(), 3);
    for name in ["again", "more"] {
        symlink("..", folder.path("in/sub").join(name))?;
        for command in [import, clusters] {
            ran(command)?.refused("again: is a link to in, in which it is itself");
        }
    }
    Ok(())
}

/// In nanoseconds, times of the type INT96 that are before 1677 or after 2262 used to become others.
#[test]
fn times_of_int96_are_read_as_they_are() -> TestResult {
    let folder = Folder::new()?;
    let times = [
        1_700_000_000,
        0,
        -1,
        16_725_225_600,
        -62_135_596_800,
        253_402_300_799,
    ];
    let keys = ["a", "b", "c", "d", "e", "f"];
    let rows: Vec<_> = keys
        .iter()
        .zip(times)
        .map(|(key, time)| (*key, time, "", time))
        .collect();
    write_int96(&folder.path("in.parquet"), &rows)?;
    for document in Import::open([folder.path("in.parquet")])?.documents() {
        let document = document?;
        let bits = document.fingerprint().map(|it| it.bits().cast_signed());
        assert_eq!(Some(document.seen()), bits, "{document:?}");
    }
    done!("import", folder.path("d.simdb"), folder.path("in.parquet"));
    Ok(())
}

/// A file that says no scheme used to take that of an export that was imported with it.
#[test]
fn files_that_say_no_scheme_are_not_mixed_with_those_that_do() -> TestResult {
    let folder = Folder::new()?;
    let [foreign, minwise, external] =
        ["foreign.parquet", "minwise.parquet", "external.parquet"].map(|it| folder.path(it));
    let key = strings(["f"]);
    write(&foreign, vec![("key", key), ("fp", integers([7]))])?;
    for (name, scheme, file) in [
        ("m.simdb", Scheme::Minwise1, &minwise),
        ("e.simdb", Scheme::External, &external),
    ] {
        let options = CreateOptions::new()
            .scheme(scheme)
            .sketch_size(SketchSize::None);
        insert_all(
            &Database::create(folder.path(name), &options)?,
            [document(name, 1)],
        )?;
        done!("export", folder.path(name), file);
    }
    let new = folder.path("n.simdb");
    for (first, second) in [(&foreign, &minwise), (&minwise, &foreign)] {
        run!("import", &new, first, second)
            .refused("foreign.parquet: it does not say the scheme of its fingerprints")
            .says("--scheme minwise-1");
    }
    run!("import", &new, &external, &minwise)
        .refused("minwise.parquet: its fingerprints are of scheme minwise-1");
    assert!(!new.exists());
    done!("import", &new, &foreign, &external);
    // What to do is said.
    run!("import", folder.path("m.simdb"), &foreign)
        .refused("give --scheme minwise-1 if they were made so");
    folder
        .run("import m.simdb foreign.parquet --scheme minwise-1")?
        .expect(0);
    run!(
        "import",
        folder.path("n2.simdb"),
        &minwise,
        "--scheme external"
    )
    .refused("exported from a database of scheme minwise-1")
    .says_no("the database holds");
    Ok(())
}

/// The reader of Parquet trusts a footer, and panics on some that are damaged.
#[test]
fn no_byte_of_a_footer_makes_an_import_panic() -> TestResult {
    let folder = Folder::new()?;
    let (database, exported) = (folder.path("d.simdb"), folder.path("d.parquet"));
    insert_all(
        &Database::create(&database, &ready())?,
        odd_documents()?.into_iter().take(30),
    )?;
    done!("export", &database, &exported);
    let whole = fs::read(&exported)?;
    let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into()?) as usize;
    let damaged = folder.path("damaged.parquet");
    let mut errors = 0;
    for place in whole.len() - 8 - length..whole.len() - 8 {
        let mut bytes = whole.clone();
        // The last bit of a number is its sign.
        bytes[place] ^= 1;
        fs::write(&damaged, &bytes)?;
        let read = Import::open([&damaged])
            .and_then(|it| it.documents().collect::<simdb::Result<Vec<_>>>());
        errors += u64::from(read.is_err());
    }
    assert!(errors > 100, "{errors} errors");
    Ok(())
}

#[test]
fn whole_numbers_of_every_width_are_read() -> TestResult {
    let folder = Folder::new()?;
    let (input, database) = (folder.path("in.parquet"), folder.path("d.simdb"));
    let keys = || strings(["a", "b"]);
    let bits = || integers([1, 2]);
    let ranks: [ArrayRef; 3] = [
        array(Int8Array::from(vec![-1, 7])),
        array(UInt16Array::from(vec![65_535, 8])),
        array(UInt64Array::from(vec![1 << 62, 9])),
    ];
    let [first, second, third] = ranks;
    let columns = vec![
        ("key", keys()),
        ("fp", bits()),
        ("rank_1", first),
        ("rank_2", second),
        ("rank_3", third),
    ];
    write(&input, columns)?;
    done!("import", &database, &input);
    let opened = Database::open(&database, &OpenOptions::new())?;
    let found = opened.snapshot()?.get("a")?.ok_or("it is lost")?;
    assert_eq!(found.rank(), [-1, 65_535, 1 << 62]);
    drop(opened);
    let large = array(UInt64Array::from(vec![1, 1 << 63]));
    write(
        &input,
        vec![("key", keys()), ("fp", bits()), ("rank_1", large)],
    )?;
    run!("import", &database, &input)
        .refused("row 2: its `rank_1` is 9223372036854775808, which is more");
    let less = array(Int8Array::from(vec![1, -1]));
    write(
        &input,
        vec![("key", keys()), ("fp", bits()), ("repeats", less)],
    )?;
    run!("import", &database, &input).refused("row 2: -1 repeats cannot be");
    // Of pairs too.
    let fingerprints = |numbers: Vec<u64>| array(UInt64Array::from(numbers));
    let distance = array(UInt8Array::from(vec![1]));
    let columns = vec![
        ("fp_a", fingerprints(vec![u64::MAX])),
        ("fp_b", fingerprints(vec![u64::MAX - 1])),
        ("distance", distance),
    ];
    write(&input, columns)?;
    let told = done!("clusters", &input, "--pairs");
    assert_eq!(told.out.lines().count(), 2);
    run!("clusters", &input, "--pairs --output", &input, "--replace")
        .refused("is one of the inputs");
    Ok(())
}

/// Writes another footer behind the pages of a file.
fn with_footer(
    path: &Path,
    change: impl FnOnce(ParquetMetaData) -> TestResult<ParquetMetaData>,
) -> TestResult {
    let bytes = fs::read(path)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&fs::File::open(path)?)?;
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into()?) as usize;
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &change(metadata)?).finish()?;
    fs::write(path, [&bytes[..bytes.len() - 8 - length], &footer].concat())?;
    Ok(())
}

/// Lets a file of three rows say that it has so many, and its group of rows too.
fn with_rows(path: &Path, rows: u8, of_group: bool) -> TestResult {
    if of_group {
        return with_footer(path, |metadata| {
            let group = metadata.row_group(0).clone().into_builder();
            let group = group.set_num_rows(rows.into()).build()?;
            Ok(metadata.into_builder().set_row_groups(vec![group]).build())
        });
    }
    // The number in the footer, twice as large since it has a sign, and the fields before and behind it.
    let mut bytes = fs::read(path)?;
    let number = bytes.windows(3).rposition(|it| it == [0x16, 6, 0x19]);
    bytes[number.ok_or("no number of rows")? + 1] = 2 * rows;
    Ok(fs::write(path, bytes)?)
}

/// Where a page is damaged, the reader of Parquet may just stop, and the rows behind were lost without a word.
#[test]
fn rows_that_a_file_says_it_has_and_has_not_are_an_error() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("in.parquet");
    let numbers = |numbers: [i64; 3]| array(Int64Array::from(numbers.to_vec()));
    let texts = |texts: [&str; 3]| array(StringArray::from(texts.to_vec()));
    for (said, of_group) in [(60, false), (60, true), (2, false), (2, true)] {
        let told = format!("it has 3 rows where its footer says {said}");
        let refused = |words: &str| -> TestResult {
            folder.run(words)?.refused("make it again").says(&told);
            Ok(())
        };
        write(
            &path,
            vec![
                ("key", texts(["a", "b", "c"])),
                ("fp", numbers([1, 2, 3])),
                (
                    "text",
                    texts(["one two three", "four five six", "seven eight"]),
                ),
            ],
        )?;
        with_rows(&path, said, of_group)?;
        refused("import d.simdb in.parquet")?;
        assert!(!folder.path("d.simdb").exists());
        refused("dedup in.parquet --list")?;
        write(
            &path,
            vec![
                ("fp_a", numbers([1, 5, 9])),
                ("fp_b", numbers([3, 5, 8])),
                ("distance", numbers([1, 0, 1])),
            ],
        )?;
        with_rows(&path, said, of_group)?;
        refused("clusters in.parquet --pairs")?;
    }
    Ok(())
}

/// Such a file used to be called damaged.
#[test]
fn a_packing_that_is_not_read_is_named() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("in.parquet");
    let key = strings(["a"]);
    write(&path, vec![("key", key), ("fp", integers([1]))])?;
    with_footer(&path, |metadata| {
        let mut groups = Vec::new();
        for group in metadata.row_groups() {
            let columns = group.columns().iter().map(|column| {
                column
                    .clone()
                    .into_builder()
                    .set_compression(Compression::BROTLI(Default::default()))
                    .build()
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let group = group.clone().into_builder().set_column_metadata(columns);
            groups.push(group.build()?);
        }
        Ok(metadata.into_builder().set_row_groups(groups).build())
    })?;
    run!("import", folder.path("d.simdb"), &path)
        .refused("`key` is packed with BROTLI")
        .says_no("damaged");
    Ok(())
}

/// Groups used to be bounded by their rows only, and so was what is handed over: large payloads took all memory.
#[test]
fn groups_of_large_payloads_are_bounded() -> TestResult {
    let folder = Folder::new()?;
    let (database, exported) = (folder.path("d.simdb"), folder.path("d.parquet"));
    let mut state = 88_172_645_463_325_252u64;
    let mut payload = || -> Vec<u8> {
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        words.take(7_500).flatten().collect()
    };
    let documents = (0..2_600).map(|i| document(format!("k{i}"), i).with_payload(payload()));
    insert_all(&Database::create(&database, &ready())?, documents)?;
    done!("export", &database, &exported, "--payload");
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&fs::File::open(&exported)?)?;
    let sizes: Vec<i64> = metadata
        .row_groups()
        .iter()
        .map(RowGroupMetaData::compressed_size)
        .collect();
    assert!(
        sizes.len() == 2 && sizes.iter().all(|&it| it < 140 << 20),
        "{sizes:?}"
    );
    Ok(())
}

/// Files of another program have no sketches. With `--scheme minwise-1` they came into a database of sketches, in which
/// nearly no question found them.
#[test]
fn fingerprints_of_another_program_without_sketches_come_into_a_database_without() -> TestResult {
    let folder = Folder::new()?;
    let (foreign, database) = (folder.path("foreign.parquet"), folder.path("d.simdb"));
    let key = strings(["a", "f"]);
    write(&foreign, vec![("key", key), ("fp", integers([5, 7]))])?;
    done!("import", &database, &foreign, "--scheme minwise-1");
    let stats = done!("stats", &database, "--json").object()?;
    assert_eq!(figures(&stats, ["documents", "sketch_bytes"]), [2, 0]);
    let texts = folder.path("t.simdb");
    done!("create", &texts);
    run!("import", &texts, &foreign, "--scheme minwise-1")
        .refused("foreign.parquet: row 1")
        .says("a fingerprint but no sketch");
    Ok(())
}

#[test]
fn seconds_that_are_milliseconds_are_refused_with_their_row() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("in.parquet");
    let key = strings(["a", "b"]);
    let bits = integers([5, 7]);
    let seen = integers([1_700_000_000, 1_700_000_000_000]);
    write(
        &input,
        vec![("key", key), ("fp", bits), ("seen_seconds", seen)],
    )?;
    run!("import", folder.path("d.simdb"), &input)
        .refused("in.parquet: row 2")
        .says("looks like milliseconds");
    assert!(!folder.path("d.simdb").exists());
    Ok(())
}

/// With `--replace`, the socket of a database was taken away.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_no_output() -> TestResult {
    use std::os::unix::fs::FileTypeExt as _;

    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    insert_all(&folder.database("d.simdb")?, [document("a", 0)])?;
    let socket = folder.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket)?;
    for replace in [None, Some("--replace")] {
        let export = program!("export", &path, &socket, ..replace).output()?;
        let mut pairs = program!("pairs", &path, "--format parquet --output");
        let pairs = pairs.arg(&socket).args(replace).output()?;
        for ran in [export, pairs] {
            assert_eq!(ran.status.code(), Some(2), "{ran:?}");
            assert!(
                fs::symlink_metadata(&socket)?.file_type().is_socket(),
                "{ran:?}"
            );
        }
        assert_eq!(folder.count()?, 2);
    }
    Ok(())
}
