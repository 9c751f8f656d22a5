//! From a picture to its hash of 64 bits.

use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageReader, Rgb, RgbImage};
use image_hasher::{FilterType, HashAlg, HasherConfig};
use simdb::Fingerprint;

use crate::Result;

pub(crate) type Hasher = image_hasher::Hasher<[u8; 8]>;

/// A kind of hash.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    algorithm: HashAlg,
    /// Whether it is made of the low frequencies of the picture.
    of_frequencies: bool,
}

/// The kind whose hashes are stored. `pictures distances` compares it with the others.
pub(crate) const STORED: Kind = Kind::new("gradient", HashAlg::Gradient, false);

/// The kinds of 64 bits that the crate has.
pub(crate) const KINDS: [Kind; 6] = [
    STORED,
    Kind::new("vertical gradient", HashAlg::VertGradient, false),
    Kind::new("mean", HashAlg::Mean, false),
    Kind::new("median", HashAlg::Median, false),
    Kind::new("blockhash", HashAlg::Blockhash, false),
    Kind::new("median of frequencies", HashAlg::Median, true),
];

impl Kind {
    const fn new(name: &'static str, algorithm: HashAlg, of_frequencies: bool) -> Self {
        Self {
            name,
            algorithm,
            of_frequencies,
        }
    }

    pub(crate) fn hasher(self) -> Hasher {
        let config = HasherConfig::with_bytes_type()
            .hash_size(8, 8)
            .hash_alg(self.algorithm)
            .resize_filter(FilterType::Triangle);
        if self.of_frequencies {
            config.preproc_dct().to_hasher()
        } else {
            config.to_hasher()
        }
    }
}

/// The hash of a picture, or `None` if it is too plain to judge: of one colour, or nearly. All such pictures are alike.
pub(crate) fn hash(hasher: &Hasher, picture: &DynamicImage) -> Option<Fingerprint> {
    if is_plain(picture) {
        return None;
    }
    let hash = hasher.hash_image(picture);
    Some(Fingerprint::from_bits(u64::from_le_bytes(
        hash.into_inner(),
    )))
}

/// Whether the brightness of what a hash sees of a picture varies by a few steps of 256 only.
fn is_plain(picture: &DynamicImage) -> bool {
    let small = picture.thumbnail_exact(9, 9).into_luma8();
    let brightness = || small.pixels().map(|pixel| pixel.0[0]);
    let (Some(least), Some(most)) = (brightness().min(), brightness().max()) else {
        return true;
    };
    most - least < 6
}

/// Reads a picture as people see it: turned as the camera says, and upon white where one sees through it; upon black if
/// it is white itself.
pub(crate) fn read(path: &Path) -> Result<DynamicImage> {
    // What a file is, its first bytes tell, whatever its name says.
    let reader = ImageReader::open(path)?.with_guessed_format()?;
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(orientation);
    if picture.color().has_alpha() {
        let upon_white = upon(255, &picture);
        picture = if is_plain(&upon_white) {
            upon(0, &picture)
        } else {
            upon_white
        };
    }
    Ok(picture)
}

fn upon(ground: u32, picture: &DynamicImage) -> DynamicImage {
    let seen_through = picture.to_rgba8();
    let mut opaque = RgbImage::new(picture.width(), picture.height());
    for (pixel, from) in opaque.pixels_mut().zip(seen_through.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let mixed = [red, green, blue].map(|value| (value * alpha + ground * (255 - alpha)) / 255);
        *pixel = Rgb(mixed.map(|value| value as u8));
    }
    DynamicImage::ImageRgb8(opaque)
}
