//! Plots of all curves, as SVG pictures that stand alone.

use std::error::Error;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::curve::{Curve, Point};

const SIZE: (u32, u32) = (1120, 640);
const SIZE_OVER_DISTANCE: (u32, u32) = (1120, 860);

/// The fonts of the numbers at the axes, and of their names.
const LABELS: (&str, u32) = ("sans-serif", 14);
const AXES: (&str, u32) = ("sans-serif", 16);

/// The width of the legend, which stands to the right of the chart.
const LEGEND: u32 = 240;

/// Eight colours that people with colour blindness can tell apart: Okabe, Ito: Color Universal Design, 2008, with a
/// darker yellow.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(0, 0, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(160, 140, 0),
];

/// The shapes of points, by the vectors from the middle to their corners (pixels), and whether they are filled.
const SHAPES: [(&[(i32, i32)], bool); 7] = [
    (&[(-3, -3), (3, -3), (3, 3), (-3, 3)], true),
    (&[(0, -5), (5, 4), (-5, 4)], false),
    (&[(0, -5), (5, 0), (0, 5), (-5, 0)], true),
    (&[(-4, -4), (4, -4), (4, 4), (-4, 4)], false),
    (&[(0, 5), (5, -4), (-5, -4)], true),
    (&[(0, -6), (6, 0), (0, 6), (-6, 0)], false),
    (&[(0, -5), (5, 4), (-5, 4)], true),
];

/// The lengths of dashes and of the gaps between them (pixels). One kind of line has none.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((10, 4)), Some((3, 3)), Some((18, 8))];

type Pixel = (i32, i32);
/// The places of the points of each curve.
type Lines = Vec<Vec<Pixel>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Draws the curves and returns the text of an SVG file. With verdicts of people, it is precision over recall;
/// otherwise the recall of pairs with a Jaccard similarity of 0.8 or more over false matches, on a scale of
/// logarithms. Where nothing matches falsely, the point stands at the left edge.
///
/// # Errors
///
/// If there is no point to draw.
pub fn plot(curves: &[Curve], title: &str) -> Result<String> {
    picture(SIZE, curves, |chart| {
        let lines = match has_verdicts(curves) {
            true => by_people(chart, curves, title)?,
            false => by_bands(chart, curves, title)?,
        };
        Ok(vec![lines])
    })
}

/// Draws recall and false matches over the distance, one above the other, and returns the text of an SVG file. So a
/// distance can be chosen by looking. Only curves whose thresholds are distances are drawn.
///
/// With verdicts of people, recall is the share of the pairs that match of those that they call the same, and the false
/// matches are the share of those that they call different. Otherwise recall is that of pairs with a Jaccard similarity
/// of 0.8 or more, and false matches are counted in a million unrelated pairs, on a scale of logarithms. Where nothing
/// matches falsely, the point stands at the lower edge.
///
/// # Errors
///
/// If there is no such curve, or no point to draw.
pub fn plot_over_distance(curves: &[Curve], title: &str) -> Result<String> {
    let by_distance = curves.iter().filter(|curve| curve.is_by_distance());
    let curves: &[Curve] = &by_distance.cloned().collect::<Vec<_>>();
    if curves.is_empty() {
        return Err("no method has distances as thresholds, so there is nothing to plot".into());
    }
    picture(SIZE_OVER_DISTANCE, curves, |charts| {
        let (above, below) = charts.split_vertically(SIZE_OVER_DISTANCE.1 / 2);
        let lines_above = recall_over_distance(&above, curves, title)?;
        let lines_below = match has_verdicts(curves) {
            true => false_share_over_distance(&below, curves)?,
            false => false_rate_over_distance(&below, curves)?,
        };
        Ok(vec![lines_above, lines_below])
    })
}

/// The text of an SVG file: charts, of which `charts` draws the axes, with the curves and their names.
fn picture(
    size: (u32, u32),
    curves: &[Curve],
    charts: impl FnOnce(&Area<'_>) -> Result<Vec<Lines>>,
) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, _) = area.split_horizontally(size.0 - LEGEND);
        for lines in charts(&left)? {
            for (index, line) in lines.into_iter().enumerate() {
                Look::new(index).draw(&area, line)?;
            }
        }
        draw_legend(&area, curves)?;
        area.present()?;
    }
    Ok(text)
}

fn has_verdicts(curves: &[Curve]) -> bool {
    let mut points = curves.iter().flat_map(|curve| &curve.points);
    points.any(|point| point.verdicts.is_some())
}

fn last_distance(curves: &[Curve]) -> f64 {
    let points = curves.iter().flat_map(|curve| &curve.points);
    points.map(|point| point.threshold).fold(1.0, f64::max)
}

fn recall_of(point: &Point) -> Option<f64> {
    match point.verdicts {
        Some(verdicts) => verdicts.same.recall(),
        None => point.recall_from_80(),
    }
}

fn false_share_of(point: &Point) -> Option<f64> {
    point.verdicts?.different.recall()
}

fn recall_over_distance(area: &Area<'_>, curves: &[Curve], title: &str) -> Result<Lines> {
    let mut points = curves.iter().flat_map(|curve| &curve.points);
    if points.all(|point| recall_of(point).is_none()) {
        return Err(
            "no pair has a Jaccard similarity of 0.8 or more, so there is nothing to plot".into(),
        );
    }
    let name = match has_verdicts(curves) {
        true => "recall: of the pairs labelled the same",
        false => "recall: of pairs with Jaccard >= 0.8",
    };
    share_over_distance(area, curves, title, name, 1.0, recall_of)
}

/// The false matches of those that people call different.
fn false_share_over_distance(area: &Area<'_>, curves: &[Curve]) -> Result<Lines> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    // Of a tenth, what is hardly any looks like hardly any.
    let most = points.filter_map(false_share_of).fold(0.1, f64::max);
    let name = "false: of the pairs labelled different";
    share_over_distance(area, curves, "", name, most, false_share_of)
}

/// A share of pairs, up to `most`.
fn share_over_distance(
    area: &Area<'_>,
    curves: &[Curve],
    title: &str,
    name: &str,
    most: f64,
    share: impl Fn(&Point) -> Option<f64>,
) -> Result<Lines> {
    let mut chart =
        builder(area, title).build_cartesian_2d(0.0..last_distance(curves), 0.0..most)?;
    chart
        .configure_mesh()
        .x_desc("max distance (bits)")
        .y_desc(name)
        .x_labels(17)
        .x_label_formatter(&|bits| format!("{bits:.0}"))
        .y_label_formatter(&|share| format!("{:.0} %", 100.0 * share))
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(AXES)
        .draw()?;
    Ok(lines(curves, |point| {
        Some(chart.backend_coord(&(point.threshold, share(point)?)))
    }))
}

/// The false matches in a million unrelated pairs.
fn false_rate_over_distance(area: &Area<'_>, curves: &[Curve]) -> Result<Lines> {
    let (least, most) = false_rates(curves)?;
    let mut chart = builder(area, "")
        .build_cartesian_2d(0.0..last_distance(curves), (least..most * 1.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("max distance (bits)")
        .y_desc("false: in a million unrelated pairs (lower edge: none)")
        .x_labels(17)
        .x_label_formatter(&|bits| format!("{bits:.0}"))
        .y_label_formatter(&f64::to_string)
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(AXES)
        .draw()?;
    Ok(lines(curves, |point| {
        let falsely = point.false_per_million()?.max(least);
        Some(chart.backend_coord(&(point.threshold, falsely)))
    }))
}

fn draw_legend(area: &Area<'_>, curves: &[Curve]) -> Result<()> {
    for (index, curve) in curves.iter().enumerate() {
        let look = Look::new(index);
        let x = (SIZE.0 - LEGEND) as i32;
        let y = 56 + 22 * index as i32;
        look.draw(area, vec![(x, y), (x + 24, y), (x + 48, y)])?;
        area.draw(&Text::new(
            curve.method.clone(),
            (x + 58, y - 7),
            ("sans-serif", 14),
        ))?;
    }
    Ok(())
}

/// How the line of a method looks. The lines of 28 methods can be told apart without their colours, since the
/// numbers of shapes and of dashes have no common divisor.
#[derive(Clone, Copy)]
struct Look {
    color: RGBColor,
    shape: (&'static [(i32, i32)], bool),
    dashes: Option<(u32, u32)>,
}

impl Look {
    fn new(index: usize) -> Self {
        Self {
            color: COLORS[index % COLORS.len()],
            shape: SHAPES[index % SHAPES.len()],
            dashes: DASHES[index % DASHES.len()],
        }
    }

    fn draw(self, area: &Area<'_>, mut line: Vec<Pixel>) -> Result<()> {
        line.dedup();
        let style = self.color.stroke_width(2);
        match self.dashes {
            None => area.draw(&PathElement::new(line.clone(), style))?,
            Some((dash, gap)) => {
                area.draw(&DashedPathElement::new(line.clone(), dash, gap, style))?;
            }
        }
        for (x, y) in line {
            let (corners, is_filled) = self.shape;
            let mut corners: Vec<Pixel> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            let inside = if is_filled { self.color } else { WHITE };
            area.draw(&Polygon::new(corners.clone(), inside))?;
            corners.extend(corners.first().copied());
            area.draw(&PathElement::new(corners, self.color))?;
        }
        Ok(())
    }
}

/// Draws the axes, and returns the places of the points of each curve.
fn by_people(area: &Area<'_>, curves: &[Curve], title: &str) -> Result<Lines> {
    let mut chart = builder(area, title).build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("recall")
        .y_desc("precision")
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(AXES)
        .draw()?;
    Ok(lines(curves, |point| {
        let verdicts = point.verdicts?;
        Some(chart.backend_coord(&(verdicts.same.recall()?, verdicts.precision()?)))
    }))
}

fn by_bands(area: &Area<'_>, curves: &[Curve], title: &str) -> Result<Lines> {
    let mut points = curves.iter().flat_map(|curve| &curve.points);
    if points.all(|point| point.recall_from_80().is_none()) {
        return Err(
            "no pair has a Jaccard similarity of 0.8 or more, so there is nothing to plot".into(),
        );
    }
    let (least, most) = false_rates(curves)?;
    let mut chart =
        builder(area, title).build_cartesian_2d((least..most * 1.1).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("false matches in a million unrelated pairs (left edge: none)")
        .y_desc("recall of pairs with a Jaccard similarity of 0.8 or more")
        .x_label_formatter(&f64::to_string)
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(AXES)
        .draw()?;
    Ok(lines(curves, |point| {
        let falsely = point.false_per_million()?.max(least);
        Some(chart.backend_coord(&(falsely, point.recall_from_80()?)))
    }))
}

/// The least and the most false matches in a million unrelated pairs that are drawn.
fn false_rates(curves: &[Curve]) -> Result<(f64, f64)> {
    let mut unrelated = 0;
    let mut most: f64 = 10.0;
    for point in curves.iter().flat_map(|curve| &curve.points) {
        unrelated = unrelated.max(point.unrelated.pairs);
        most = most.max(point.false_per_million().unwrap_or(0.0));
    }
    if unrelated == 0 {
        return Err("no two documents are unrelated, so there is nothing to plot".into());
    }
    // One false match is the least that can be seen. What has none stands below that.
    let least = (0.5e6 / unrelated as f64).min(0.5);
    Ok((least, most))
}

/// The places of the points of each curve, but of those that have none.
fn lines(curves: &[Curve], place: impl Fn(&Point) -> Option<Pixel>) -> Lines {
    let mut lines = Vec::with_capacity(curves.len());
    for curve in curves {
        lines.push(curve.points.iter().filter_map(&place).collect());
    }
    lines
}

fn builder<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(60);
    builder
}
