//! What `simdb eval` prints: the yardstick, a table for each method, the best of each.

use crate::eval::{Band, Corpus, Curve, EstimateError, Point, Yardstick};
use serde_json::{Value, json};

use super::output::Output;

const BANDS: [&str; 4] = [">=0.9", "0.8-0.9", "0.7-0.8", "0.5-0.7"];

pub(super) fn print_yardstick(output: &mut Output, corpus: &Corpus, yardstick: &Yardstick<'_>) {
    let bands = yardstick.bands();
    output.print(
        || {
            json!({"documents": corpus.len(), "pairs": corpus.pairs(), "band_pairs": bands,
                   "unrelated_pairs": yardstick.unrelated()})
        },
        || {
            let counts: Vec<String> = BANDS
                .iter()
                .zip(bands)
                .map(|(name, count)| format!("{name}: {count}"))
                .collect();
            format!(
                "{} documents, {} unrelated pairs; pairs by Jaccard similarity: {}",
                corpus.len(),
                yardstick.unrelated(),
                counts.join(", ")
            )
        },
    );
}

/// A table of a method, or an object for each of its points.
pub(super) fn print_curve(output: &mut Output, curve: &Curve) {
    if output.is_json() {
        for point in &curve.points {
            output.print(|| point_object(curve, point), String::new);
        }
        return;
    }
    let mut line = |text: String| output.print(|| Value::Null, || text);
    line(String::new());
    let Curve {
        method,
        bytes,
        describe_us,
        pair_ns,
        ..
    } = curve;
    line(format!(
        "{method}: {bytes:.0} bytes a document, {describe_us:.0} us to describe one, {pair_ns:.1} ns a pair"
    ));
    if let Some(EstimateError { pairs, rmse }) = curve.estimate_error {
        line(format!(
            "{:>10} {rmse:.3} is the RMSE of the estimated similarity over {pairs} pairs",
            ""
        ));
    }
    let mut header = format!("{:>10}", curve.threshold_name());
    BANDS
        .iter()
        .for_each(|band| header.push_str(&format!("{band:>9}")));
    header.push_str(&format!("{:>10}", "F"));
    if curve.points.iter().any(|it| it.verdicts.is_some()) {
        header.push_str(&format!("{:>11}{:>8}{:>7}", "precision", "recall", "F1"));
    }
    line(header);
    for point in &curve.points {
        line(point_line(point));
    }
}

fn point_line(point: &Point) -> String {
    let mut line = format!("{:>10}", threshold(point));
    for band in &point.bands {
        line.push_str(&format!("{:>9}", percent(band.recall())));
    }
    line.push_str(&format!("{:>10}", rounded(point.false_per_million())));
    if let Some(verdicts) = point.verdicts {
        let (precision, recall) = (
            percent(verdicts.precision()),
            percent(verdicts.same.recall()),
        );
        line.push_str(&format!(
            "{precision:>11}{recall:>8}{:>7}",
            f1_text(verdicts.f1())
        ));
    }
    line
}

fn point_object(curve: &Curve, point: &Point) -> Value {
    let mut object = json!({
        "method": curve.method,
        "bytes": curve.bytes,
        "describe_us": curve.describe_us,
        "pair_ns": curve.pair_ns,
        "threshold": point.threshold,
        "threshold_name": curve.threshold_name(),
        "band_recall": point.bands.each_ref().map(Band::recall),
        "false_matches": point.unrelated.found,
        "false_per_million": point.false_per_million(),
    });
    if let Some(EstimateError { pairs, rmse }) = curve.estimate_error {
        object["rmse"] = rmse.into();
        object["rmse_pairs"] = pairs.into();
    }
    if let Some(verdicts) = point.verdicts {
        object["precision"] = verdicts.precision().into();
        object["recall"] = verdicts.same.recall().into();
        object["f1"] = verdicts.f1().into();
    }
    object
}

/// For each method, the point with the best F1 and the loosest one with at most one false match in a million.
/// JSON has the points already.
pub(super) fn print_bests(output: &mut Output, curves: &[Curve]) {
    if output.is_json() {
        return;
    }
    let mut line = |text: String| output.print(|| Value::Null, || text);
    line(String::new());
    line(format!(
        "{:<25}{:>8}{:>9}{:>9}   at F <= 1:{:>10}{:>9}{:>9}{:>9}",
        "method", "bytes", "best F1", "at", "at", BANDS[0], BANDS[1], "F"
    ));
    for curve in curves {
        let best = curve.best_f1();
        let (f1, at) = (
            f1_text(best.map(|it| it.1)),
            best.map_or("-".to_owned(), |it| threshold(it.0)),
        );
        let mut text = format!("{:<25}{:>8.0}{f1:>9}{at:>9}", curve.method, curve.bytes);
        text.push_str(&match curve.at_one_false() {
            Some(point) => format!(
                "{:>24}{:>9}{:>9}{:>9}",
                threshold(point),
                percent(point.bands[0].recall()),
                percent(point.bands[1].recall()),
                rounded(point.false_per_million())
            ),
            None => format!("{:>24}", "never"),
        });
        line(text);
    }
}

fn threshold(point: &Point) -> String {
    ((point.threshold * 1e4).round() / 1e4).to_string()
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |it| format!("{:.1}%", 100.0 * it))
}

fn rounded(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |it| {
        if it < 10.0 {
            format!("{it:.2}")
        } else {
            format!("{it:.0}")
        }
    })
}

fn f1_text(f1: Option<f64>) -> String {
    f1.map_or("-".to_owned(), |it| format!("{it:.3}"))
}
