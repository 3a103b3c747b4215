// How a page looks and reads: what axe finds, and what is cut.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Frame, Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What axe finds wrong with the page. */
export async function violations(chat: Frame | Page): Promise<string[]> {
  await chat.evaluate(axe);
  // A view is not a page: it has no landmarks of its own to begin with.
  const found = await chat.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then((result) => result.violations)`);
  return (found as Violation[]).flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`));
}

/** Buttons and fields that are cut or outside of the page. */
export async function cut(chat: Frame | Page): Promise<string[]> {
  return chat.evaluate(() => {
    const wrong: string[] = [];
    if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
    // A page that scrolls as one may be higher.
    if (innerHeight > 480 && document.body.scrollHeight > innerHeight + 1) wrong.push(`the page is ${document.body.scrollHeight} high in ${innerHeight}`);
    for (const element of document.querySelectorAll<HTMLElement>("button, input, textarea, select")) {
      if (!element.checkVisibility()) continue;
      const box = element.getBoundingClientRect();
      const name = element.textContent || element.getAttribute("aria-label") || element.id;
      if (box.left < 0 || box.right > innerWidth + 0.5) wrong.push(`${name} is outside`);
      // What ends in an ellipsis says all of it in its title.
      const isShortened = getComputedStyle(element).textOverflow === "ellipsis" && element.title !== "";
      if (element instanceof HTMLButtonElement && !isShortened && (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1)) wrong.push(`${name} is cut`);
    }
    const feed = document.getElementById("feed");
    // In a low view a card comes before the conversation.
    if (feed?.checkVisibility() && innerHeight > 560 && feed.clientHeight < 60) wrong.push(`the conversation is ${feed.clientHeight} high`);
    return wrong;
  });
}
