//! The layout of the output: which records go into which file, and how that is packed.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::dedup::Dedup;
use super::work::OUTPUT;
use crate::error::{Error, Result};
use crate::files::{is_named_as_directory, is_named_as_unwritten};
use crate::ingest::{Cut, InputFormat, Packing, RecordId, StoredRecords};

/// The files of the output, in the order of the inputs.
pub(super) struct Layout {
    /// Whether the output is a directory.
    pub(super) is_tree: bool,
    pub(super) files: Vec<OutputFile>,
    paths: Vec<PathBuf>,
    /// How each input is cut into records, and how it is packed.
    kinds: Vec<(InputFormat, Packing)>,
}

pub(super) struct OutputFile {
    /// Its path in the folder of the work.
    pub(super) path: PathBuf,
    /// The inputs whose records it gets.
    pub(super) inputs: Range<usize>,
    pub(super) packing: Packing,
    /// How its inputs are cut. Of web archives each record is packed on its own. A text is one record, and is copied as
    /// it is stored.
    pub(super) format: InputFormat,
}

impl Layout {
    pub(super) fn new(dedup: &Dedup, records: &mut StoredRecords) -> Result<Self> {
        let paths = records.paths().to_vec();
        let kinds = records.kinds()?;
        let mut directories = dedup.inputs.clone();
        directories.retain(|path| dedup.options.place_of(path).is_dir());
        let is_tree = dedup.output.is_dir()
            || is_named_as_directory(&dedup.output)
            || !directories.is_empty()
            || kinds.iter().any(|kind| kind.0.cut() == Cut::File);
        let mut layout = Self {
            is_tree,
            files: Vec::new(),
            paths,
            kinds,
        };
        layout.files = if is_tree {
            layout.tree(dedup, &directories, &records.names())?
        } else {
            layout.one_file(dedup)?
        };
        if dedup.annotates {
            layout.ensure_fields()?;
        }
        // What cannot be copied is told before the work, and not at its end.
        #[cfg(feature = "parquet")]
        for file in layout.files.iter().filter(|file| file.packing.is_of_rows()) {
            crate::parquet::ensure_copyable(
                file.inputs.clone().map(|index| records.place_of(index)),
            )?;
        }
        Ok(layout)
    }

    fn ensure_fields(&self) -> Result<()> {
        for (path, (format, packing)) in self.paths.iter().zip(&self.kinds) {
            if *format != InputFormat::Jsonl && !packing.is_of_rows() {
                return Err(Error::input(
                    path,
                    "its records have no place for fields: only JSON Lines and Parquet files are annotated. \
                             `--removed FILE` without `--annotate` lists what is near to what",
                ));
            }
        }
        Ok(())
    }

    /// The path of the input of a record, and what its number counts.
    pub(super) fn place_of(&self, id: RecordId) -> (&Path, &'static str) {
        let index = id.input as usize;
        let (format, packing) = self.kinds[index];
        let unit = match format.cut() {
            Cut::Archive | Cut::File => "record",
            Cut::Line if packing.is_of_rows() => "row",
            Cut::Line => "line",
        };
        (&self.paths[index], unit)
    }

    /// Leaves out the files that get records of these inputs only.
    pub(super) fn leave_out(&mut self, inputs: &BTreeSet<usize>) {
        self.files
            .retain(|file| file.inputs.clone().any(|input| !inputs.contains(&input)));
    }

    /// A file for each input, of the same name. `sources` are the names by which the inputs are known again.
    fn tree(
        &self,
        dedup: &Dedup,
        directories: &[PathBuf],
        sources: &[Vec<u8>],
    ) -> Result<Vec<OutputFile>> {
        let mut taken: HashSet<PathBuf> = HashSet::with_capacity(self.paths.len());
        let mut folders: HashSet<PathBuf> = HashSet::new();
        let mut read: HashSet<&[u8]> = HashSet::with_capacity(self.paths.len());
        let mut files = Vec::with_capacity(self.paths.len());
        for (index, path) in self.paths.iter().enumerate() {
            if !read.insert(&sources[index]) {
                // An input that is given twice, perhaps by a link, is read once.
                continue;
            }
            let name = name_below(path, directories, dedup.inputs.len() > 1);
            let is_taken = !taken.insert(name.clone()) || folders.contains(&name);
            let mut above = name.ancestors().skip(1);
            if is_taken || above.any(|folder| taken.contains(folder)) {
                let reason = "two inputs have this name, or one and the folder of another, and would get the same \
                              place in the output";
                return Err(Error::output(&dedup.output.join(name), reason));
            }
            for folder in name.ancestors().skip(1) {
                if !folders.insert(folder.to_owned()) {
                    break;
                }
            }
            let (format, packing) = self.kinds[index];
            files.push(OutputFile {
                path: Path::new(OUTPUT).join(name),
                inputs: index..index + 1,
                packing,
                format,
            });
        }
        Ok(files)
    }

    fn one_file(&self, dedup: &Dedup) -> Result<Vec<OutputFile>> {
        let Some(&(format, first)) = self.kinds.first() else {
            return Ok(Vec::new());
        };
        for (path, (other, packing)) in self.paths.iter().zip(&self.kinds) {
            if *other != format || packing.is_of_rows() != first.is_of_rows() {
                return Err(Error::input(
                    path,
                    format!(
                        "it is of another format than {}, so they cannot be in one file: let the output be a directory",
                        self.paths[0].display()
                    ),
                ));
            }
        }
        let extension = dedup.output.extension().and_then(OsStr::to_str);
        let extension = extension.map(str::to_ascii_lowercase);
        let extension = extension.as_deref();
        if (extension == Some("parquet")) != first.is_of_rows() && extension.is_some_and(is_known) {
            let reason = match first.is_of_rows() {
                true => "the inputs are Parquet, and so is the output: give it a name that says so",
                false => {
                    "the inputs are not Parquet, and records are copied as they are: give it another name"
                }
            };
            return Err(Error::output(&dedup.output, reason));
        }
        if is_named_as_unwritten(&dedup.output) {
            let reason = "such a file is not written: give it a name that ends in .gz or .zst";
            return Err(Error::output(&dedup.output, reason));
        }
        let packing = match extension {
            _ if first.is_of_rows() => first,
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstd,
            _ => first,
        };
        Ok(vec![OutputFile {
            path: OUTPUT.into(),
            inputs: 0..self.paths.len(),
            packing,
            format,
        }])
    }
}

/// The name of an input below the output: its path below the directory that was given, or its own name. If there are
/// `several` inputs, the name of the directory comes first.
fn name_below(path: &Path, directories: &[PathBuf], several: bool) -> PathBuf {
    for directory in directories {
        let Ok(below) = path.strip_prefix(directory) else {
            continue;
        };
        return match directory.file_name() {
            Some(name) if several => Path::new(name).join(below),
            _ => below.to_owned(),
        };
    }
    match path.file_name() {
        Some(name) => name.into(),
        None => path.to_owned(),
    }
}

/// Whether the end of a name says what is in a file.
fn is_known(extension: &str) -> bool {
    [
        "parquet", "jsonl", "ndjson", "json", "tsv", "warc", "txt", "gz", "zst",
    ]
    .contains(&extension)
}
