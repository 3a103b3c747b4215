// A unified diff as lines that are told apart by their signs, and by colour besides.
import { h } from "./dom.ts";

/** A diff, as it is read. */
export function diff(text: string): HTMLElement {
  const lines = text.replace(/\n$/, "").split("\n");
  return h(
    "pre",
    { class: "diff", tabindex: "0", "aria-label": "Changes" },
    ...lines.map((line, index) => h("span", { class: kind(line) }, index < lines.length - 1 ? `${line}\n` : line)),
  );
}

function kind(line: string): string {
  if (line.startsWith("+++") || line.startsWith("---")) return "file";
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}
