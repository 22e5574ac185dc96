//! Operations on paths: steps, the visible part of a line, dashes.

use super::Point;

/// A position in the drawing, in fine units.
type Pixel = (i32, i32);

/// The lengths of a dash and of the gap after it, in fine pixels.
const DASH: (f64, f64) = (28.0, 20.0);

/// Joins points by steps that hold each value until the next x.
pub(super) fn stairs(points: &[Point]) -> Vec<Point> {
    let mut out = Vec::with_capacity(2 * points.len());
    for pair in points.windows(2) {
        out.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    out.extend(points.last());
    out
}

/// Returns the parts of a line inside the unit square, cut where the line leaves it.
///
/// `place` maps a point to the plane of the square; `None` interrupts the line.
pub(super) fn visible_runs(
    points: &[Point],
    place: impl Fn(Point) -> Option<Point>,
) -> Vec<Vec<Point>> {
    let mut runs: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for pair in points.windows(2) {
        let segment = match (place(pair[0]), place(pair[1])) {
            (Some(from), Some(to)) => clip(from, to),
            _ => None,
        };
        let Some((from, to, whole_start, whole_end)) = segment else {
            open = false;
            continue;
        };
        match runs.last_mut() {
            Some(run) if open && whole_start => run.push(to),
            _ => runs.push(vec![from, to]),
        }
        open = whole_end;
    }
    runs
}

/// Returns the part of a segment inside the unit square (Liang and Barsky), and for each end whether it is the
/// segment's own.
fn clip(from: Point, to: Point) -> Option<(Point, Point, bool, bool)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
    for (step, room) in [
        (-dx, from.0),
        (dx, 1.0 - from.0),
        (-dy, from.1),
        (dy, 1.0 - from.1),
    ] {
        // A segment parallel to an edge doesn't cross it.
        if step.abs() < f64::EPSILON {
            if room < 0.0 {
                return None;
            }
        } else if step < 0.0 {
            enter = enter.max(room / step);
        } else {
            leave = leave.min(room / step);
        }
    }
    let at = |t: f64| (from.0 + t * dx, from.1 + t * dy);
    (enter <= leave).then(|| (at(enter), at(leave), enter <= 0.0, leave >= 1.0))
}

/// Cuts a polyline into dashes; the pattern continues around corners.
pub(super) fn dashed(line: &[Pixel]) -> Vec<Vec<Pixel>> {
    let mut dashes: Vec<Vec<Pixel>> = Vec::new();
    let (mut drawing, mut left) = (true, DASH.0);
    let mut current: Vec<Pixel> = line.first().copied().into_iter().collect();
    for pair in line.windows(2) {
        let (dx, dy) = (
            f64::from(pair[1].0 - pair[0].0),
            f64::from(pair[1].1 - pair[0].1),
        );
        let length = dx.hypot(dy);
        let mut at = 0.0;
        while length - at > left {
            at += left;
            let turn = (
                pair[0].0 + (dx * at / length).round() as i32,
                pair[0].1 + (dy * at / length).round() as i32,
            );
            if drawing {
                current.push(turn);
                dashes.push(std::mem::take(&mut current));
            } else {
                current = vec![turn];
            }
            drawing = !drawing;
            left = if drawing { DASH.0 } else { DASH.1 };
        }
        left -= length - at;
        if drawing {
            current.push(pair[1]);
        }
    }
    if drawing && current.len() > 1 {
        dashes.push(current);
    }
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_hold_each_value() {
        assert_eq!(
            stairs(&[(0.0, 1.0), (2.0, 3.0)]),
            [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]
        );
    }

    #[test]
    fn a_line_is_cut_where_it_leaves_and_goes_on_where_it_returns() {
        let line = [(0.0, 0.5), (0.4, 1.5), (0.8, 0.5), (1.0, 0.5)];
        let runs = visible_runs(&line, Some);
        assert_eq!(runs.len(), 2, "{runs:?}");
        assert_eq!(runs[0].len(), 2);
        assert_eq!(runs[1].len(), 3);
        assert!(runs.iter().flatten().all(|p| p.1 <= 1.0 + 1e-12));
        assert!((runs[0][1].0 - 0.2).abs() < 1e-12);
    }

    #[test]
    fn dashes_cover_their_share_and_turn_corners() {
        let corner = [(0, 0), (100, 0), (100, 100)];
        let dashes = dashed(&corner);
        let length = |d: &Vec<Pixel>| -> f64 {
            d.windows(2)
                .map(|p| f64::from(p[1].0 - p[0].0).hypot(f64::from(p[1].1 - p[0].1)))
                .sum()
        };
        let drawn: f64 = dashes.iter().map(length).sum();
        // 200 fine pixels: four whole periods of 48, and 8 of the next dash.
        assert!((drawn - 120.0).abs() < 2.0, "{drawn}");
        assert!(
            dashes.iter().any(|d| d.len() == 3),
            "one goes round the corner"
        );
    }
}
