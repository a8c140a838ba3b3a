//! The curves: four panels, both axes logarithmic, a line for each master.

use std::path::Path;

use anyhow::{Context as _, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Row;

const SIZE: (u32, u32) = (1000, 760);
const THEIRS: RGBColor = RGBColor(0xd9, 0x6c, 0x06);
const OURS: RGBColor = RGBColor(0x0b, 0x5f, 0xa5);

/// A panel: its title, and the value it shows of a row.
struct Panel {
    title: &'static str,
    of: fn(&Row) -> f64,
}

const PANELS: [Panel; 4] = [
    Panel { title: "until all are ready, seconds", of: |row| row.numbers.ready },
    Panel { title: "test.ping, publish to last return, ms", of: |row| row.numbers.returns[3] },
    Panel { title: "most memory of the master, MiB", of: |row| row.numbers.memory as f64 / f64::from(1 << 20) },
    Panel {
        title: "processor time of the master per return, ms",
        of: |row| row.numbers.ping_processor * 1000.0 / row.numbers.minions as f64,
    },
];

/// Draws the rows into a file.
pub fn write(rows: &[Row], path: &Path) -> Result<()> {
    let text = draw(rows).context("failed to draw")?;
    std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

fn draw(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (area, panel) in area.split_evenly((2, 2)).iter().zip(&PANELS) {
            draw_panel(area, panel, rows)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn draw_panel(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel, rows: &[Row]) -> Result<()> {
    let minions = range(rows.iter().map(|row| row.numbers.minions as f64));
    let values = range(rows.iter().map(panel.of));
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 22))
        .margin(14)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(minions.log_scale(), values.log_scale())
        .map_err(failed)?;
    let plain = |value: &f64| format!("{}", (value * 1e6).round() / 1e6);
    let mesh = &mut chart.configure_mesh();
    mesh.label_style(("sans-serif", 17)).axis_desc_style(("sans-serif", 17)).x_labels(4).y_labels(6);
    mesh.x_desc("minions").light_line_style(TRANSPARENT).x_label_formatter(&plain).y_label_formatter(&plain);
    mesh.draw().map_err(failed)?;
    for (ours, colour) in [(false, THEIRS), (true, OURS)] {
        let of_side: Vec<&Row> = rows.iter().filter(|row| row.ours == ours).collect();
        let Some(first) = of_side.first() else { continue };
        // A logarithmic axis has no place for zero.
        let points: Vec<(f64, f64)> =
            of_side.iter().map(|row| (row.numbers.minions as f64, (panel.of)(row).max(f64::MIN_POSITIVE))).collect();
        let line = LineSeries::new(points, colour.stroke_width(2)).point_size(4);
        let series = chart.draw_series(line).map_err(failed)?;
        series
            .label(first.side.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 16, y + 4)], colour.filled()));
    }
    let labels = &mut chart.configure_series_labels();
    labels.label_font(("sans-serif", 17));
    labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3));
    labels.draw().map_err(failed)
}

/// Returns the whole decades that contain all values.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let positive = values.filter(|value| *value > 0.0);
    let (least, most) =
        positive.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (least.min(value), most.max(value)));
    let least = if least > most { most } else { least };
    // A little more than the logarithm, so that a range is not empty if all values are the same power of ten.
    10f64.powf(least.log10().floor())..10f64.powf((most.log10() + 1e-9).ceil())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    #[test]
    fn each_master_has_a_line_in_each_panel() {
        let svg = draw(&[row("3008.5", 100), row("ours", 100), row("ours", 2000)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for panel in &PANELS {
            assert!(svg.contains(panel.title), "{}", panel.title);
        }
        assert_eq!(svg.matches("3008.5").count(), 4);
        assert!(svg.matches("<polyline").count() >= 8);
    }

    #[test]
    fn axes_are_whole_decades() {
        let range = range([0.0, 3.0, 250.0].into_iter());
        assert!((range.start - 1.0).abs() < 1e-9 && (range.end - 1000.0).abs() < 1e-6, "{range:?}");
    }
}
