//! One plot of all curves, as an SVG picture that stands alone.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::curve::{Curve, Point};

const SIZE: (u32, u32) = (1000, 640);

/// Draws the curves and returns the text of an SVG file. With verdicts of people, it is precision over recall;
/// otherwise the recall of pairs with a Jaccard similarity of 0.8 or more over false matches, on a scale of
/// logarithms. Where nothing matches falsely, the point stands at the left edge.
///
/// # Errors
///
/// If there is no point to draw.
pub fn plot(curves: &[Curve], title: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        let has_verdicts = curves.iter().flat_map(|it| &it.points).any(|it| it.verdicts.is_some());
        let drawn =
            if has_verdicts { by_people(&area, curves, title) } else { by_bands(&area, curves, title) };
        drawn.map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// Draws a line with its points and its entry in the legend for each curve. The types of the two charts differ.
macro_rules! draw_lines {
    ($chart:ident, $curves:ident, $at:ident) => {
        for (index, curve) in $curves.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let line: Vec<(f64, f64)> = curve.points.iter().filter_map($at).collect();
            let series = LineSeries::new(line.iter().copied(), color.stroke_width(2));
            let entry = $chart.draw_series(series)?.label(curve.method.as_str());
            entry.legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(3)));
            $chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, color.filled())))?;
        }
        $chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK)
            .label_font(("sans-serif", 14))
            .draw()?;
    };
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

fn by_people(area: &Area<'_>, curves: &[Curve], title: &str) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    chart.configure_mesh().x_desc("recall").y_desc("precision").light_line_style(WHITE).draw()?;
    let at = |point: &Point| {
        let verdicts = point.verdicts?;
        Some((verdicts.same.recall()?, verdicts.precision()?))
    };
    draw_lines!(chart, curves, at);
    Ok(())
}

fn by_bands(area: &Area<'_>, curves: &[Curve], title: &str) -> Drawn {
    let points = || curves.iter().flat_map(|it| &it.points);
    if points().all(|it| it.recall_from_80().is_none()) {
        return Err("no pair has a Jaccard similarity of 0.8 or more, so there is nothing to plot".into());
    }
    // One false match is the least that can be seen. What has none stands left of that.
    let unrelated = points().map(|it| it.unrelated.pairs).max().unwrap_or(0).max(1);
    let least = (0.5e6 / unrelated as f64).min(0.5);
    let most = points().filter_map(Point::false_per_million).fold(10.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(60)
        .build_cartesian_2d((least..most * 1.1).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("false matches in a million unrelated pairs (left edge: none)")
        .y_desc("recall of pairs with a Jaccard similarity of 0.8 or more")
        .x_label_formatter(&|it: &f64| format!("{it}"))
        .light_line_style(WHITE)
        .draw()?;
    let at = |point: &Point| Some((point.false_per_million()?.max(least), point.recall_from_80()?));
    draw_lines!(chart, curves, at);
    Ok(())
}
