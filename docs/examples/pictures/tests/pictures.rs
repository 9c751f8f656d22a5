//! The program, run on pictures that are made here.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::{DynamicImage, Rgb, RgbImage, Rgba, RgbaImage};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A picture of some discs. Each number gives another one.
fn scene(number: u32) -> DynamicImage {
    let mut picture = RgbImage::new(320, 240);
    let mut state = u64::from(number) + 1;
    let mut next = |below: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % below
    };
    for _ in 0..30 {
        let center = [next(320), next(240)];
        let radius = 10 + next(60);
        let color = Rgb([next(256), next(256), next(256)].map(|value| value as u8));
        for (x, y, pixel) in picture.enumerate_pixels_mut() {
            if x.abs_diff(center[0]).pow(2) + y.abs_diff(center[1]).pow(2) < radius.pow(2) {
                *pixel = color;
            }
        }
    }
    picture.into()
}

fn pictures(folder: &Path, arguments: &[&str]) -> Result<Output> {
    let program = env!("CARGO_BIN_EXE_pictures");
    let mut command = Command::new(program);
    Ok(command.args(arguments).current_dir(folder).output()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a picture, a smaller copy in another format, and another picture.
fn folder() -> Result<(tempfile::TempDir, PathBuf)> {
    let temporary = tempfile::tempdir()?;
    let folder = temporary.path().join("holiday pictures");
    fs::create_dir_all(folder.join("small"))?;
    scene(1).save(folder.join("one.png"))?;
    scene(1)
        .thumbnail(160, 160)
        .to_rgb8()
        .save(folder.join("small/one.jpg"))?;
    scene(2).save(folder.join("two.png"))?;
    Ok((temporary, folder))
}

#[test]
fn a_smaller_copy_is_found_and_the_larger_picture_survives() -> Result<()> {
    let (temporary, folder) = folder()?;
    let root = temporary.path();
    let added = pictures(root, &["add", "p.simdb", "holiday pictures"])?;
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert!(text(&added.stdout).starts_with("3 pictures: 3 stored"));

    let groups = pictures(root, &["groups", "p.simdb", "--html", "groups.html"])?;
    let lines = text(&groups.stdout);
    let lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0][..3], ["1", "0", "320x240"]);
    assert!(lines[0][3].ends_with("one.png") && lines[1][3].ends_with("one.jpg"));
    assert_eq!(lines[1][2], "160x120");
    assert!(fs::read_to_string(root.join("groups.html"))?.contains("holiday%20pictures/one.png"));

    let asked = folder.join("small/one.jpg");
    let near = pictures(root, &["near", "p.simdb", &asked.to_string_lossy()])?;
    assert_eq!(
        (near.status.code(), text(&near.stdout).lines().count()),
        (Some(0), 2)
    );
    scene(3).save(root.join("three.png"))?;
    let near = pictures(root, &["near", "p.simdb", "three.png"])?;
    assert_eq!(
        (near.status.code(), text(&near.stdout)),
        (Some(1), String::new())
    );
    Ok(())
}

#[test]
fn what_is_stored_is_not_read_again_and_a_broken_picture_stops_nothing() -> Result<()> {
    let (temporary, folder) = folder()?;
    let root = temporary.path();
    fs::write(folder.join("broken.jpg"), b"no picture at all")?;
    fs::write(folder.join("notes.txt"), b"no picture by its name")?;
    RgbImage::from_pixel(50, 50, Rgb([9, 90, 200])).save(folder.join("plain.png"))?;
    let added = pictures(root, &["add", "p.simdb", "holiday pictures"])?;
    assert_eq!(added.status.code(), Some(2));
    let told = text(&added.stdout);
    let expected = "5 pictures: 4 stored, of which 1 are too plain to judge; 0 as before; 1 unreadable; 1 other files";
    assert!(told.starts_with(expected), "{told}");
    assert!(text(&added.stderr).contains("broken.jpg"));

    fs::remove_file(folder.join("broken.jpg"))?;
    scene(4).save(folder.join("four.png"))?;
    let again = pictures(root, &["add", "p.simdb", &folder.to_string_lossy()])?;
    let told = text(&again.stdout);
    let expected =
        "5 pictures: 1 stored, of which 0 are too plain to judge; 4 as before; 0 unreadable";
    assert!(
        again.status.success() && told.starts_with(expected),
        "{told}"
    );
    Ok(())
}

/// Black ink on nothing is no black picture, and white ink on nothing no white one.
#[test]
fn what_one_sees_through_is_white() -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let root = temporary.path();
    let mut black = RgbaImage::new(320, 240);
    let mut white = RgbaImage::new(320, 240);
    for (x, y, from) in scene(5).to_luma8().enumerate_pixels() {
        black.put_pixel(x, y, Rgba([0, 0, 0, 255 - from.0[0]]));
        white.put_pixel(x, y, Rgba([255, 255, 255, from.0[0]]));
    }
    black.save(root.join("black.png"))?;
    white.save(root.join("white.png"))?;
    scene(5).to_luma8().save(root.join("grey.png"))?;
    let added = pictures(root, &["add", "p.simdb", "."])?;
    assert!(added.status.success(), "{}", text(&added.stderr));
    let groups = pictures(root, &["groups", "p.simdb", "--max-distance", "1"])?;
    assert_eq!(text(&groups.stdout).lines().count(), 3);
    Ok(())
}
