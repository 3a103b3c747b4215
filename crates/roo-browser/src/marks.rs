//! Marks on a picture: a frame around each element, with its ref. They are drawn into the page for the moment of the
//! picture, in a world of JavaScript that the page can't reach.

use roo_catalog::ElementRef;
use serde_json::json;

/// The most marks of a picture.
pub(crate) const MAX_MARKS: usize = 80;

/// Name of the attribute by which the marks are found again.
const HOST: &str = "data-roo-marks";

/// Place of an element on a picture: left, top, width, height.
pub(crate) type Rectangle = [f64; 4];

/// Returns the rectangle around the corners of an element; none where it covers nothing.
pub(crate) fn around(quads: &[Vec<f64>]) -> Option<Rectangle> {
    let corners = quads.first()?;
    let sides = |from: usize| {
        let values = corners.iter().skip(from).step_by(2).copied();
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (top, bottom)) = (sides(0), sides(1));
    let is_visible = right - left >= 1.0 && bottom - top >= 1.0;
    is_visible.then_some([left, top, right - left, bottom - top])
}

/// The script that draws marks.
pub(crate) fn drawing(marks: &[(ElementRef, Rectangle)]) -> String {
    let marks: Vec<_> = marks.iter().map(|(name, place)| json!([name.to_string(), place])).collect();
    format!(
        "(() => {{
  const host = document.createElement('div');
  host.setAttribute('{HOST}', '');
  host.style.cssText = 'all:initial;position:fixed;left:0;top:0;width:0;height:0;pointer-events:none;z-index:2147483647';
  const root = host.attachShadow({{ mode: 'closed' }});
  for (const [name, [left, top, width, height]] of {}) {{
    const frame = document.createElement('div');
    frame.style.cssText = `position:fixed;box-sizing:border-box;left:${{left}}px;top:${{top}}px;width:${{width}}px;` +
      `height:${{height}}px;border:1px solid #c00;pointer-events:none`;
    const label = document.createElement('div');
    label.style.cssText = `position:fixed;left:${{Math.max(0, left)}}px;top:${{Math.max(0, top - 11)}}px;` +
      'font:bold 10px/11px sans-serif;color:#fff;background:#c00;padding:0 2px;pointer-events:none';
    label.textContent = name;
    root.append(frame, label);
  }}
  (document.body ?? document.documentElement).append(host);
}})()",
        serde_json::Value::from(marks)
    )
}

/// The script that removes them.
pub(crate) fn removing() -> String {
    format!("document.querySelectorAll('[{HOST}]').forEach((marks) => marks.remove())")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_is_around_all_corners() {
        let quad = vec![10.0, 20.0, 110.0, 20.0, 110.0, 50.0, 10.0, 50.0];
        assert_eq!(around(&[quad]), Some([10.0, 20.0, 100.0, 30.0]));
        assert_eq!(around(&[vec![10.0; 8]]), None);
        assert_eq!(around(&[]), None);
    }

    #[test]
    fn a_mark_is_its_ref_and_its_place() {
        let script = drawing(&[(ElementRef(3), [1.0, 2.0, 3.0, 4.0])]);
        assert!(script.contains(r#"["e3",[1.0,2.0,3.0,4.0]]"#), "{script}");
    }
}
