//! `distances`: how far changed copies of pictures are from the pictures, and the pictures from each other.

use std::path::{Path, PathBuf};

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{DynamicImage, Rgb, RgbImage};
use simdb::Fingerprint;

use crate::hashing::{self, Hasher, KINDS};
use crate::{Result, cores, files};

/// A change of a picture, as others make it.
#[derive(Clone, Copy)]
enum Edit {
    /// Divides width and height.
    Smaller(u32),
    /// At most so many pixels wide and high.
    Thumbnail(u32),
    /// Of this quality.
    Jpeg(u8),
    PackedTwice,
    Grey,
    Brighter,
    MoreContrast,
    OtherHues,
    Blurred,
    Wider,
    Caption,
    /// So many per cent are cut off each side.
    Cropped(u32),
    /// A white border of so many per cent of the width.
    Bordered(u32),
    Mirrored,
    Turned,
}

const EDITS: [(&str, Edit); 22] = [
    ("half as wide and high", Edit::Smaller(2)),
    ("a quarter as wide and high", Edit::Smaller(4)),
    ("a thumbnail of 128 pixels", Edit::Thumbnail(128)),
    ("JPEG of quality 75", Edit::Jpeg(75)),
    ("JPEG of quality 30", Edit::Jpeg(30)),
    ("JPEG of quality 10", Edit::Jpeg(10)),
    ("half, JPEG 75, half, JPEG 50", Edit::PackedTwice),
    ("grey", Edit::Grey),
    ("brighter by a tenth", Edit::Brighter),
    ("more contrast", Edit::MoreContrast),
    ("hues turned by 30 degrees", Edit::OtherHues),
    ("blurred", Edit::Blurred),
    ("a tenth wider", Edit::Wider),
    ("a caption over the lowest 6 %", Edit::Caption),
    ("1 % cut off each side", Edit::Cropped(1)),
    ("2 % cut off each side", Edit::Cropped(2)),
    ("5 % cut off each side", Edit::Cropped(5)),
    ("10 % cut off each side", Edit::Cropped(10)),
    ("a white border of 1 %", Edit::Bordered(1)),
    ("a white border of 5 %", Edit::Bordered(5)),
    ("mirrored", Edit::Mirrored),
    ("turned by 90 degrees", Edit::Turned),
];

impl Edit {
    fn of(self, picture: &DynamicImage) -> Result<DynamicImage> {
        Ok(match self {
            Self::Smaller(times) => smaller(picture, times),
            Self::Thumbnail(most) => picture.thumbnail(most, most),
            Self::Jpeg(quality) => jpeg(picture, quality)?,
            Self::PackedTwice => {
                let once = jpeg(&smaller(picture, 2), 75)?;
                jpeg(&smaller(&once, 2), 50)?
            }
            Self::Grey => picture.grayscale(),
            Self::Brighter => picture.brighten(25),
            Self::MoreContrast => picture.adjust_contrast(20.0),
            Self::OtherHues => picture.huerotate(30),
            Self::Blurred => picture.fast_blur(picture.width() as f32 / 200.0),
            Self::Wider => picture.resize_exact(
                picture.width() * 11 / 10,
                picture.height(),
                FilterType::Triangle,
            ),
            Self::Caption => captioned(picture),
            Self::Cropped(percent) => cropped(picture, percent),
            Self::Bordered(percent) => bordered(picture, percent),
            Self::Mirrored => picture.fliph(),
            Self::Turned => picture.rotate90(),
        })
    }
}

/// Pictures are made so small before they are changed. To change larger ones takes long, and the distances are the
/// same.
const LARGEST: u32 = 1024;

/// The distances of a picture after each edit, by each kind, and its hash of each kind.
struct Measured {
    hashes: Vec<Fingerprint>,
    /// By edit, then by kind. `None` where the picture is too plain to judge after the edit.
    distances: Vec<Vec<Option<u32>>>,
}

/// Prints a line for each edit: of each kind, the median distance, and the one that nine of ten copies do not exceed.
/// The last line says how many of a million pairs of different pictures are within 4, 8, 10 and 12.
pub(crate) fn distances(folders: &[PathBuf]) -> Result<bool> {
    let found = files::pictures(folders)?;
    let hashers = KINDS.map(hashing::Kind::hasher);
    let mut measured = Vec::new();
    cores::each(
        &found.pictures,
        |file| measure(&hashers, &file.path),
        |file, result| {
            match result {
                Ok(Some(picture)) => measured.push(picture),
                Ok(None) => eprintln!("pictures: {}: too plain to judge", file.path.display()),
                Err(error) => eprintln!("pictures: {}: {error}", file.path.display()),
            }
            Ok(())
        },
    )?;
    println!("{} pictures\n", measured.len());
    println!("| copy | {} |", KINDS.map(|kind| kind.name).join(" | "));
    println!("|---|{}", "---|".repeat(KINDS.len()));
    for (index, (name, _)) in EDITS.iter().enumerate() {
        let mut cells = Vec::new();
        for kind in 0..KINDS.len() {
            let of_kind = measured
                .iter()
                .filter_map(|picture| picture.distances[index][kind]);
            cells.push(median_and_most(of_kind.collect()));
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
    let mut cells = Vec::new();
    for kind in 0..KINDS.len() {
        cells.push(other_pictures(&measured, kind));
    }
    println!("| other pictures | {} |", cells.join(" | "));
    Ok(!measured.is_empty())
}

fn measure(hashers: &[Hasher], path: &Path) -> Result<Option<Measured>> {
    let mut picture: DynamicImage = hashing::read(path)?.into_rgb8().into();
    if picture.width().max(picture.height()) > LARGEST {
        picture = picture.thumbnail(LARGEST, LARGEST);
    }
    let hashes = hashes(hashers, &picture);
    if hashes.contains(&None) {
        return Ok(None);
    }
    let mut distances = Vec::new();
    for (_, edit) in EDITS {
        let copy = self::hashes(hashers, &edit.of(&picture)?);
        let pairs = hashes.iter().zip(copy);
        distances.push(pairs.map(|(a, b)| Some((*a)?.distance(b?))).collect());
    }
    let hashes = hashes.into_iter().flatten().collect();
    Ok(Some(Measured { hashes, distances }))
}

fn hashes(hashers: &[Hasher], picture: &DynamicImage) -> Vec<Option<Fingerprint>> {
    hashers
        .iter()
        .map(|hasher| hashing::hash(hasher, picture))
        .collect()
}

/// The distance that half of the copies do not exceed, and the one that nine of ten do not.
fn median_and_most(mut distances: Vec<u32>) -> String {
    distances.sort_unstable();
    let Some(last) = distances.len().checked_sub(1) else {
        return "-".to_owned();
    };
    let most = distances[last - last / 10];
    format!("{}, {most}", distances[last / 2])
}

/// How many of a million pairs of pictures are within some distances.
fn other_pictures(measured: &[Measured], kind: usize) -> String {
    let mut within = [0u64; 4];
    let mut all = 0;
    for (index, a) in measured.iter().enumerate() {
        for b in &measured[..index] {
            let distance = a.hashes[kind].distance(b.hashes[kind]);
            for (count, most) in within.iter_mut().zip([4, 8, 10, 12]) {
                *count += u64::from(distance <= most);
            }
            all += 1;
        }
    }
    within
        .map(|count| (count * 1_000_000 / all.max(1)).to_string())
        .join(" / ")
}

fn smaller(picture: &DynamicImage, times: u32) -> DynamicImage {
    let width = (picture.width() / times).max(1);
    let height = (picture.height() / times).max(1);
    picture.resize_exact(width, height, FilterType::Lanczos3)
}

fn jpeg(picture: &DynamicImage, quality: u8) -> Result<DynamicImage> {
    let mut bytes = Vec::new();
    picture.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, quality))?;
    Ok(image::load_from_memory(&bytes)?)
}

/// With a black strip in which white marks stand, as a line of text.
fn captioned(picture: &DynamicImage) -> DynamicImage {
    let mut copy = picture.to_rgb8();
    let (width, height) = copy.dimensions();
    let strip = height * 6 / 100;
    for y in height - strip..height {
        let is_line = (strip / 3..strip * 2 / 3).contains(&(y + strip - height));
        for x in 0..width {
            let is_mark = is_line && x < width / 2 && x * 200 / width % 3 == 0;
            copy.put_pixel(x, y, Rgb([if is_mark { 255 } else { 0 }; 3]));
        }
    }
    copy.into()
}

fn cropped(picture: &DynamicImage, percent: u32) -> DynamicImage {
    let x = picture.width() * percent / 100;
    let y = picture.height() * percent / 100;
    picture.crop_imm(x, y, picture.width() - 2 * x, picture.height() - 2 * y)
}

fn bordered(picture: &DynamicImage, percent: u32) -> DynamicImage {
    let border = picture.width() * percent / 100;
    let width = picture.width() + 2 * border;
    let height = picture.height() + 2 * border;
    let mut copy = RgbImage::from_pixel(width, height, Rgb([255; 3]));
    imageops::overlay(&mut copy, &picture.to_rgb8(), border.into(), border.into());
    copy.into()
}
