//! Copying the records that survive, in the order of the inputs. They are packed in pieces, so all cores can.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::annotation::{Annotation, annotations, without_annotation};
use super::events::{DedupEvent, DedupStep, Observe};
use super::layout::{Layout, OutputFile};
use super::verdicts::removed;
use super::work::{InOrder, OUTPUT, Work, cannot_write};
use crate::database::Database;
use crate::error::{Error, Result, path_name};
use crate::files::{make_directory, open_to_write, remove, sync_directory, sync_file};
use crate::ingest::{Cut, Input, Packing, Progress, RecordId, Stop, StoredRecords};
use crate::parallel;
#[cfg(feature = "parquet")]
use crate::parquet::{RowCopy, RowFate};
use crate::source::{Place, Source};

/// The bytes of a piece. It ends with a record, unless that is much longer.
const PIECE_BYTES: usize = 1 << 20;
/// The pieces that each core packs before they are written.
const PIECES_PER_CORE: usize = 2;
/// The time after which the place is kept up to which the output is written.
const BETWEEN_SAVES: Duration = if cfg!(test) {
    // Tests look at what each leaves.
    Duration::ZERO
} else {
    Duration::from_secs(5)
};

/// How far the survivors are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    input: usize,
    /// The place up to which it is copied.
    place: Place,
    /// The length of its output up to there (bytes).
    length: u64,
    /// Whether the output ends within a line.
    is_in_line: bool,
}

pub(super) fn write(
    work: &mut Work,
    layout: &Layout,
    records: &mut StoredRecords,
    database: &Database,
    annotates: bool,
    stop: &Stop,
    observe: Observe<'_>,
) -> Result<()> {
    let snapshot = database.snapshot()?;
    let mut sources = Vec::new();
    let mut known = HashSet::new();
    for (index, name) in records.names().into_iter().enumerate() {
        // An input that is given twice is read once.
        let is_repeated = !known.insert(name.clone());
        let is_left_out = is_repeated || work.state.left_out.contains(&index);
        let source = if is_left_out {
            None
        } else {
            snapshot.source(&name)?
        };
        if source.is_none() && !is_left_out {
            return Err(Error::input(
                &records.paths()[index],
                "it was not read before, so its records are not known",
            ));
        }
        sources.push(source);
    }
    let progress = records.begin_again();
    let annotations = annotates.then(|| annotations(work)).transpose()?;
    let mut survivors = Survivors {
        records,
        removed: removed(work)?,
        annotations,
        sources,
    };
    let mut writing = Writing {
        work,
        stop,
        progress,
        saved: Instant::now(),
        unsynced: Vec::new(),
    };
    let output = writing.work.path(OUTPUT);
    // Also if nothing survives.
    if layout.is_tree && !output.exists() {
        make_directory(&output).map_err(cannot_write(&output))?;
    }
    for file in &layout.files {
        if writing.work.state.reached.input >= file.inputs.end {
            continue;
        }
        match file.format.cut() {
            Cut::File => writing.copy_file(file, &mut survivors)?,
            #[cfg(feature = "parquet")]
            Cut::Line if file.packing == Packing::Parquet => {
                writing.copy_rows(file, &mut survivors, observe)?;
            }
            Cut::Line | Cut::Archive => writing.copy_records(file, &mut survivors, observe)?,
        }
        writing.report(observe)?;
    }
    writing.save(None)
}

/// The records that survive, or all of them if they are annotated.
struct Survivors<'s> {
    records: &'s mut StoredRecords,
    removed: InOrder<()>,
    annotations: Option<InOrder<Annotation>>,
    /// What the inputs were when they were read. `None` for one that is not read.
    sources: Vec<Option<Source>>,
}

enum Fate {
    LeftOut,
    Copied,
    Annotated(Annotation),
}

struct Writing<'w> {
    work: &'w mut Work,
    stop: &'w Stop,
    progress: Progress,
    saved: Instant,
    /// The files that were copied whole since the state was kept.
    unsynced: Vec<PathBuf>,
}

impl Writing<'_> {
    fn copy_file(&mut self, file: &OutputFile, survivors: &mut Survivors<'_>) -> Result<()> {
        let index = file.inputs.start;
        let is_copied = matches!(survivors.fate(index, 1)?, Fate::Copied);
        if let Some(source) = &survivors.sources[index]
            && is_copied
        {
            let records = &mut *survivors.records;
            records.ensure_same(index, source)?;
            let to = self.work.path(&file.path);
            copy_anew(&records.place_of(index), &to).map_err(cannot_write(&file.path))?;
            self.unsynced.push(to);
            records.ensure_same(index, source)?;
        }
        self.end_file(file)
    }

    /// Copies the rows of some Parquet files into one. If that is stopped, it begins anew.
    #[cfg(feature = "parquet")]
    fn copy_rows(
        &mut self,
        file: &OutputFile,
        survivors: &mut Survivors<'_>,
        observe: Observe<'_>,
    ) -> Result<()> {
        let path = self.work.path(&file.path);
        make_folder_of(&path).map_err(cannot_write(&path))?;
        let mut copy = RowCopy::new(&path, survivors.annotations.is_some());
        let progress = self.progress.clone();
        let mut copied = |bytes| {
            progress.pass_over(bytes);
            self.report(observe)
        };
        for index in file.inputs.clone() {
            let Some(source) = survivors.sources[index].clone() else {
                continue;
            };
            survivors.records.ensure_same(index, &source)?;
            let place = survivors.records.place_of(index);
            copy.add(
                &place,
                |number| {
                    Ok(match survivors.fate(index, number)? {
                        Fate::LeftOut => RowFate::LeftOut,
                        Fate::Copied => RowFate::Copied,
                        Fate::Annotated(annotation) => RowFate::Annotated(annotation.into_row()),
                    })
                },
                &mut copied,
            )?;
            survivors.records.ensure_same(index, &source)?;
        }
        copy.finish(&mut copied)?;
        self.unsynced.push(path);
        self.end_file(file)
    }

    fn copy_records(
        &mut self,
        file: &OutputFile,
        survivors: &mut Survivors<'_>,
        observe: Observe<'_>,
    ) -> Result<()> {
        let path = self.work.path(&file.path);
        let from = self.work.state.reached;
        let mut out = open_behind(&path, from.length).map_err(cannot_write(&path))?;
        self.unsynced.push(path.clone());
        let (sender, receiver) = mpsc::sync_channel(PIECES_PER_CORE * parallel::cores());
        thread::scope(|scope| {
            let sent = Sent::new(sender, from, file.format.cut() == Cut::Archive);
            let thread = thread::Builder::new().name("simdb-read".to_owned());
            let cut = thread.spawn_scoped(scope, move || survivors.cut(file, from, sent));
            let cut = cut.map_err(Error::no_thread)?;
            let written = self.write_pieces(file, &path, &mut out, &receiver, observe);
            drop(receiver);
            let cut = cut
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // An input that fails ends the pieces. The end of the pieces ends the reading.
            written.and(cut)
        })?;
        if self.work.state.reached.length == 0 {
            let empty = pack(&[], file.packing).map_err(cannot_write(&path))?;
            out.write_all(&empty).map_err(cannot_write(&path))?;
        }
        // What was written since the state was kept last.
        self.unsynced.push(path);
        self.end_file(file)
    }

    /// Notes that a file is copied whole.
    fn end_file(&mut self, file: &OutputFile) -> Result<()> {
        self.work.state.reached = Written {
            input: file.inputs.end,
            ..Written::default()
        };
        self.save_now_and_then(None)
    }

    fn write_pieces(
        &mut self,
        file: &OutputFile,
        path: &Path,
        out: &mut File,
        pieces: &Receiver<Piece>,
        observe: Observe<'_>,
    ) -> Result<()> {
        let mut packer = Packer {
            packing: file.packing,
            long: None,
        };
        let mut has_ended = false;
        while !has_ended {
            // As many pieces for each core, or cores would wait for others.
            let mut together = Vec::new();
            while together.len() < PIECES_PER_CORE * parallel::cores() {
                match pieces.recv_timeout(Duration::from_millis(100)) {
                    Ok(piece) => together.push(piece),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        has_ended = true;
                        break;
                    }
                }
            }
            for packed in packer.pack(together) {
                let Piece { bytes, behind, .. } = packed.map_err(cannot_write(path))?;
                out.write_all(&bytes).map_err(cannot_write(path))?;
                let before = self.work.state.reached.length + bytes.len() as u64;
                self.work.state.reached.length = before;
                if let Some(behind) = behind {
                    self.work.state.reached = Written {
                        length: before,
                        ..behind
                    };
                    // Behind the last record, the file may have to be ended still, and a run that goes on would pass
                    // it over.
                    if behind.input < file.inputs.end {
                        self.save_now_and_then(Some(out))?;
                    }
                }
            }
            self.report(observe)?;
        }
        Ok(())
    }

    /// Keeps the state, if that was long ago, once the output is durable.
    fn save_now_and_then(&mut self, out: Option<&File>) -> Result<()> {
        if self.saved.elapsed() < BETWEEN_SAVES {
            return Ok(());
        }
        self.save(out)
    }

    /// Keeps the state, once all that was written is durable.
    fn save(&mut self, out: Option<&File>) -> Result<()> {
        let top = self.work.path("");
        self.sync(out, &top).map_err(cannot_write(&top))?;
        self.work.save()?;
        self.saved = Instant::now();
        Ok(())
    }

    fn sync(&mut self, out: Option<&File>, top: &Path) -> io::Result<()> {
        if let Some(out) = out {
            sync_file(out)?;
        }
        let mut folders = BTreeSet::new();
        for path in self.unsynced.drain(..) {
            sync_file(&File::open(&path)?)?;
            // Those above it may be new too.
            let mut folder = path.parent();
            while let Some(above) = folder
                && above.starts_with(top)
            {
                folders.insert(above.to_owned());
                folder = above.parent();
            }
        }
        for folder in folders {
            sync_directory(&folder)?;
        }
        Ok(())
    }

    /// Reports how far the work is. An error if nobody wants the rest.
    fn report(&self, observe: Observe<'_>) -> Result<()> {
        observe(DedupEvent::of_bytes(DedupStep::Writing, &self.progress));
        self.stop.ensure_wanted()
    }
}

impl Survivors<'_> {
    /// What becomes of a record. Each that is asked for is behind the one before.
    fn fate(&mut self, input: usize, number: u64) -> Result<Fate> {
        let id = RecordId {
            input: input as u32,
            number,
        };
        if let Some(annotations) = &mut self.annotations
            && let Some(annotation) = annotations.of(id)?
        {
            return Ok(Fate::Annotated(annotation.clone()));
        }
        Ok(match self.removed.of(id)? {
            Some(()) => Fate::LeftOut,
            None => Fate::Copied,
        })
    }

    /// Cuts the inputs of a file into records, and sends those that survive.
    fn cut(&mut self, file: &OutputFile, from: Written, mut sent: Sent) -> Result<()> {
        for input in from.input.max(file.inputs.start)..file.inputs.end {
            let Some(source) = self.sources[input].clone() else {
                continue;
            };
            let place = if input == from.input {
                from.place
            } else {
                Place::default()
            };
            let Some(mut open) = self.records.open_at(input, place, &source)? else {
                continue;
            };
            if open.is_behind_byte_order_mark() && input == file.inputs.start {
                sent.piece.extend_from_slice(BYTE_ORDER_MARK);
            }
            // The last line of the input before may have no end.
            if place == Place::default() && sent.is_in_line {
                sent.missing_end = match (file.format.cut(), file.packing) {
                    // Two line ends part records, which do not end in a line of their own.
                    (Cut::Archive, Packing::None) => b"\r\n\r\n",
                    (Cut::Archive, _) => b"",
                    _ => b"\n",
                };
            }
            loop {
                let has_more = self.copy_next(input, &mut open, &mut sent)?;
                if sent.is_closed {
                    return Ok(());
                }
                let behind = match has_more {
                    false => Some(Written {
                        input: input + 1,
                        ..Written::default()
                    }),
                    true if sent.end_record() => None,
                    true => Some(Written {
                        input,
                        place: open.place(),
                        ..Written::default()
                    }),
                };
                if let Some(behind) = behind {
                    sent.send(Some(Written {
                        is_in_line: sent.is_in_line,
                        ..behind
                    }));
                }
                if !has_more {
                    break;
                }
            }
            self.records.ensure_same(input, &source)?;
            if file.format.cut() == Cut::Archive {
                self.ensure_same_records(input, &mut open, &source)?;
            }
        }
        Ok(())
    }

    /// Refuses the copy of an archive that was not cut into as many records as it was when they were judged. What was
    /// removed may then be others than those that are said to be.
    fn ensure_same_records(&self, input: usize, open: &mut Input, source: &Source) -> Result<()> {
        let (judged, copied) = (source.place().records, open.place().records);
        if judged == copied {
            return Ok(());
        }
        Err(Error::input(
            &self.records.paths()[input],
            format!(
                "it was judged as {judged} records, and copied as {copied}; the same command begins anew when its \
                 folder of work is deleted"
            ),
        ))
    }

    /// Copies the next record, or passes over it. False at the end of the input.
    fn copy_next(&mut self, input: usize, open: &mut Input, sent: &mut Sent) -> Result<bool> {
        let number = open.next_number();
        let copied = match self.fate(input, number)? {
            Fate::LeftOut => open.copy_next(&mut io::sink()),
            Fate::Copied if self.annotations.is_some() => copy_without_annotation(open, sent),
            Fate::Copied => open.copy_next(sent),
            Fate::Annotated(annotation) => self.copy_annotated(input, open, &annotation, sent),
        };
        // Whoever takes the pieces has failed, and says why.
        if sent.is_closed { Ok(false) } else { copied }
    }

    /// Copies the next record, which is an object on a line, with what is said of it.
    fn copy_annotated(
        &self,
        input: usize,
        open: &mut Input,
        annotation: &Annotation,
        sent: &mut Sent,
    ) -> Result<bool> {
        let number = open.next_number();
        // It was judged, so it is no longer than records may be.
        let mut line = Vec::new();
        let copied = open.copy_next(&mut line)?;
        let path = &self.records.paths()[input];
        let Some(annotated) = annotation.write_into(&line) else {
            return Err(Error::Input {
                source_name: path_name(path),
                line: Some(number),
                reason: "it has changed since it was read".to_owned(),
            });
        };
        // If nobody takes it any more, whoever took it says why.
        _ = sent.write_all(&annotated);
        Ok(copied)
    }
}

/// Copies the next record, which could not be judged, without what was said of it before.
fn copy_without_annotation(open: &mut Input, sent: &mut Sent) -> Result<bool> {
    let mut unjudged = Unjudged {
        line: Vec::new(),
        most: open.max_record_bytes(),
        is_long: false,
        sent,
    };
    let copied = open.copy_next(&mut unjudged)?;
    let Unjudged { line, sent, .. } = unjudged;
    // If nobody takes it any more, whoever took it says why.
    _ = match without_annotation(&line) {
        Some(changed) => sent.write_all(&changed),
        None => sent.write_all(&line),
    };
    Ok(copied)
}

/// A line that could not be judged. It is held, unless it is longer than records may be.
struct Unjudged<'s> {
    line: Vec<u8>,
    most: usize,
    is_long: bool,
    sent: &'s mut Sent,
}

impl Write for Unjudged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_long && self.line.len() + bytes.len() <= self.most {
            self.line.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.is_long = true;
        self.sent.write_all(&mem::take(&mut self.line))?;
        self.sent.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sent.flush()
    }
}

struct Sent {
    sender: SyncSender<Piece>,
    piece: Vec<u8>,
    /// Where records end in the piece, if each is packed on its own.
    ends: Vec<usize>,
    packs_each: bool,
    /// Whether the beginning of the record was sent already.
    is_long: bool,
    is_in_line: bool,
    /// What comes before what is written next: the line ends that the input before it lacks.
    missing_end: &'static [u8],
    /// Whether nobody takes pieces any more.
    is_closed: bool,
}

impl Sent {
    fn new(sender: SyncSender<Piece>, from: Written, packs_each: bool) -> Self {
        Self {
            sender,
            piece: Vec::new(),
            ends: Vec::new(),
            packs_each,
            is_long: false,
            is_in_line: from.is_in_line,
            missing_end: b"",
            is_closed: false,
        }
    }

    /// A record ends here. Whether another one fits into the piece.
    fn end_record(&mut self) -> bool {
        if self.packs_each {
            self.ends.push(self.piece.len());
        }
        self.piece.len() < PIECE_BYTES && !self.is_long
    }

    /// Sends the piece. Records end here.
    fn send(&mut self, behind: Option<Written>) {
        let ends = mem::take(&mut self.ends);
        let content = match mem::take(&mut self.is_long) {
            true => Content::OfRecord { is_last: true },
            false => Content::Records(ends),
        };
        self.send_as(content, behind);
    }

    /// Sends the piece, which ends within a record.
    fn send_part(&mut self) {
        if !self.packs_each {
            return self.send_as(Content::Records(Vec::new()), None);
        }
        // The records before it are pieces of their own.
        if let Some(&end) = self.ends.last() {
            let rest = self.piece.split_off(end);
            let ends = mem::take(&mut self.ends);
            self.send_as(Content::Records(ends), None);
            self.piece = rest;
        }
        self.is_long = true;
        self.send_as(Content::OfRecord { is_last: false }, None);
    }

    fn send_as(&mut self, content: Content, behind: Option<Written>) {
        let bytes = mem::replace(
            &mut self.piece,
            Vec::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 3)),
        );
        let sent = self.sender.send(Piece {
            bytes,
            content,
            behind,
        });
        self.is_closed |= sent.is_err();
    }
}

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(&last) = bytes.last() {
            self.piece
                .extend_from_slice(mem::take(&mut self.missing_end));
            self.piece.extend_from_slice(bytes);
            self.is_in_line = last != b'\n';
        }
        // A record that is very long.
        if self.piece.len() >= 4 * PIECE_BYTES {
            self.send_part();
        }
        if self.is_closed {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn make_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => fs::create_dir_all(folder),
        None => Ok(()),
    }
}

/// Copies a file in the place of a copy that was stopped, which may be one that nobody can write to.
fn copy_anew(from: &Path, to: &Path) -> io::Result<()> {
    match remove(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    make_folder_of(to)?;
    fs::copy(from, to).map(drop)
}

/// Opens a file to write behind its first bytes. What is behind these was not kept as written, and is cut off.
fn open_behind(path: &Path, length: u64) -> io::Result<File> {
    make_folder_of(path)?;
    let mut file = open_to_write(path)?;
    if file.metadata()?.len() < length {
        return Err(io::Error::other(
            "it is shorter than it was; delete the folder to begin anew",
        ));
    }
    file.set_len(length)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

struct Piece {
    bytes: Vec<u8>,
    content: Content,
    /// How far the inputs are read behind it. `None` within a record.
    behind: Option<Written>,
}

enum Content {
    /// Records, and where they end in it if each is packed on its own.
    Records(Vec<usize>),
    /// A part of a long record that is packed on its own.
    OfRecord { is_last: bool },
}

struct Packer {
    packing: Packing,
    /// The long record that is being packed.
    long: Option<Part>,
}

impl Packer {
    /// The same pieces, with their bytes packed, on all cores. Those of a long record are packed one after the other.
    fn pack(&mut self, pieces: Vec<Piece>) -> impl Iterator<Item = io::Result<Piece>> {
        let packing = self.packing;
        let packed = parallel::map_each(pieces, |mut piece| {
            if let Content::Records(ends) = &piece.content {
                piece.bytes = packed(mem::take(&mut piece.bytes), ends, packing)?;
            }
            Ok(piece)
        });
        packed.into_iter().map(|piece: io::Result<Piece>| {
            let mut piece = piece?;
            if let Content::OfRecord { is_last } = piece.content {
                piece.bytes = self.pack_long(&piece.bytes, is_last)?;
            }
            Ok(piece)
        })
    }

    fn pack_long(&mut self, bytes: &[u8], is_last: bool) -> io::Result<Vec<u8>> {
        let mut part = match self.long.take() {
            Some(part) => part,
            None => Part::begin(self.packing)?,
        };
        part.add(bytes)?;
        if is_last {
            return part.end();
        }
        let packed = part.take();
        self.long = Some(part);
        Ok(packed)
    }
}

/// Packs bytes: in one part, or the bytes up to each of these ends in a part of their own.
fn packed(bytes: Vec<u8>, ends: &[usize], packing: Packing) -> io::Result<Vec<u8>> {
    if packing == Packing::None {
        return Ok(bytes);
    }
    let mut packed = Vec::with_capacity(bytes.len() / 3);
    let mut from = 0;
    for &end in ends.iter().chain([&bytes.len()]) {
        if end > from {
            packed.append(&mut pack(&bytes[from..end], packing)?);
        }
        from = end;
    }
    Ok(packed)
}

fn pack(bytes: &[u8], packing: Packing) -> io::Result<Vec<u8>> {
    let mut part = Part::begin(packing)?;
    part.add(bytes)?;
    part.end()
}

/// A part that is packed piece by piece.
enum Part {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Part {
    fn begin(packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::None => Self::Plain(Vec::new()),
            Packing::Parquet => unreachable!("its rows are copied, and not its bytes"),
            Packing::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(packed) => packed.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        mem::take(match self {
            Self::Plain(packed) => packed,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// What is packed and was not taken, with the end of the part.
    fn end(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(packed) => Ok(packed),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use flate2::read::MultiGzDecoder;

    use super::*;
    use crate::dedup::Dedup;

    /// A run that was stopped behind the last record of a packed file went on with the next file. If no record had
    /// survived, the file was left without a byte, and no program could unpack it.
    #[test]
    fn stopped_anywhere_it_leaves_packed_files_that_can_be_unpacked() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut inputs = Vec::new();
        for (name, text) in [("a", "no record\n"), ("b", "no record either\n")] {
            let path = folder.path().join(format!("{name}.jsonl.gz"));
            let file = File::create(&path).map_err(Error::io(&path))?;
            let mut packer = GzEncoder::new(file, Compression::fast());
            let written = packer.write_all(text.as_bytes());
            written
                .and_then(|()| packer.finish())
                .map_err(Error::io(&path))?;
            inputs.push(path);
        }
        for (name, most_stops) in [("one.jsonl.gz", 10), ("several/", 10)] {
            for stop_at in 0..most_stops {
                let output = folder.path().join(format!("{stop_at}-{name}"));
                let dedup = Dedup::new(&inputs, &output).drop_unjudged(true);
                let stops = Arc::new(AtomicBool::new(false));
                let is_to_stop = stops.clone();
                let mut writings = 0;
                let stopped = dedup
                    .clone()
                    .stop_when(move || is_to_stop.load(Ordering::Relaxed))
                    .run(|event| {
                        if let DedupEvent::Progress {
                            step: DedupStep::Writing,
                            ..
                        } = event
                        {
                            stops.store(writings == stop_at, Ordering::Relaxed);
                            writings += 1;
                        }
                    });
                match stopped {
                    Err(Error::Interrupted) => drop(dedup.run(|_| {})?),
                    stopped => drop(stopped?),
                }
                let mut packed = vec![output.clone()];
                if output.is_dir() {
                    packed = inputs
                        .iter()
                        .map(|it| output.join(it.file_name().expect("a name")))
                        .collect();
                }
                for path in packed {
                    let file = File::open(&path).map_err(Error::io(&path))?;
                    let mut unpacked = Vec::new();
                    let bytes = file.metadata().map_err(Error::io(&path))?.len();
                    assert!(bytes > 0, "{path:?}: {stop_at}");
                    let read = MultiGzDecoder::new(file).read_to_end(&mut unpacked);
                    assert!(read.is_ok_and(|bytes| bytes == 0), "{path:?}: {stop_at}");
                }
            }
        }
        Ok(())
    }
}
