// The page's few icons, drawn in the colour of the text around them.

const PATHS = {
  send: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  resume: "M5 3.5v9l7-4.5z",
  queue: "M2.5 4h11M2.5 8h6M2.5 12h6M12 8v5M9.5 10.5h5",
  image: "M2.5 3h11v10h-11zM2.5 11l3.5-4 3 3.5 2-2 2.5 2.5M11 5.5h.01",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  insert: "M8 2.5v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
  previous: "M10 3.5 5.5 8l4.5 4.5",
  next: "M6 3.5 10.5 8 6 12.5",
  shield: "M8 2 3 4v4c0 3 2 5 5 6 3-1 5-3 5-6V4zM5.8 8l1.6 1.6 3-3.2",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  down: "M4 6l4 4 4-4",
  restore: "M3.5 3v3.5H7M3.8 6.5A5 5 0 1 1 3 9.5",
  edit: "M10.5 3 13 5.5 6 12.5 3 13l.5-3zM9 4.5 11.5 7",
  remove: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
} as const;

/** The name of an icon. */
export type Icon = keyof typeof PATHS;

/** An icon; whoever can't see it is told by its button's label. */
export function icon(name: Icon): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const attributes = { viewBox: "0 0 16 16", width: "16", height: "16", "aria-hidden": "true", class: "icon" };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
