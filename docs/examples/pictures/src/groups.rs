//! `groups`: the pictures that are alike, as text, and as a page that shows them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use simdb::{Cluster, ClusterEvent, Clustering, Database, Document, Near, Snapshot, Survivor};

use crate::{Result, files};

const HEAD: &str = "<!doctype html><meta charset=\"utf-8\"><title>Pictures that are alike</title><style>\
    body { font: 14px sans-serif } section { border-top: 1px solid; padding: 8px; display: flex; flex-wrap: wrap; gap: 8px }\
    figure { margin: 0; width: 240px; overflow-wrap: anywhere } img { max-width: 240px; max-height: 180px }</style>\n";

/// Prints each group, the picture that is worth most first. False if there are none.
pub(crate) fn groups(database: &Database, max_distance: u32, html: Option<&Path>) -> Result<bool> {
    let snapshot = database.snapshot()?;
    let clustering = Clustering::new()
        .near(Near::within(max_distance))
        .survivor([Survivor::Rank]);
    let mut page = html
        .map(|path| File::create(path).map(BufWriter::new))
        .transpose()?;
    if let Some(page) = &mut page {
        page.write_all(HEAD.as_bytes())?;
    }
    let mut number = 0;
    let mut failure = None;
    let totals = snapshot.clusters(&clustering, |event| {
        let ClusterEvent::Cluster(cluster) = event else {
            return ControlFlow::Continue(());
        };
        number += 1;
        match show(&snapshot, &cluster, number, page.as_mut()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    if let Some(page) = &mut page {
        page.flush()?;
    }
    eprintln!(
        "pictures: {} groups of {} pictures, of which {} are copies",
        totals.clusters,
        totals.documents,
        totals.duplicates()
    );
    Ok(totals.clusters > 0)
}

/// Prints a group, and adds it to the page.
fn show(
    snapshot: &Snapshot,
    cluster: &Cluster,
    number: u64,
    page: Option<&mut BufWriter<File>>,
) -> Result<()> {
    let mut pictures = Vec::new();
    for (index, member) in cluster.documents.iter().enumerate() {
        if let Some(document) = snapshot.get(&member.key)? {
            pictures.push((index != cluster.survivor, member.distance, document));
        }
    }
    pictures.sort_by_key(|(is_copy, distance, _)| (*is_copy, *distance));
    let mut out = std::io::stdout().lock();
    for (_, distance, document) in &pictures {
        let size = files::size(document);
        writeln!(
            out,
            "{number}\t{distance}\t{size}\t{}",
            files::name(document)
        )?;
    }
    if let Some(page) = page {
        writeln!(page, "<section>")?;
        for (_, distance, document) in &pictures {
            writeln!(page, "{}", figure(document, *distance))?;
        }
        writeln!(page, "</section>")?;
    }
    Ok(())
}

/// A picture of the page, with its distance to the first of its group.
fn figure(document: &Document, distance: u32) -> String {
    let link = link(document.key());
    let size = files::size(document);
    let name = files::name(document)
        .replace('&', "&amp;")
        .replace('<', "&lt;");
    format!(
        "<figure><a href=\"{link}\"><img loading=\"lazy\" src=\"{link}\"></a><br>{distance}, {size}<br>{name}</figure>"
    )
}

/// The address of a file.
fn link(path: &[u8]) -> String {
    let mut link = "file://".to_owned();
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            link.push(char::from(byte));
        } else {
            link += &format!("%{byte:02X}");
        }
    }
    link
}
