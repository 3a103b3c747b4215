// A model's Markdown as safe HTML: no markup of its own, no images, links that only the extension may open.
import MarkdownIt from "markdown-it";
import { escapeHtml, highlight } from "./highlight.ts";

const markdown = new MarkdownIt({ html: false, linkify: false, breaks: true }).disable(["image"]);

// Web addresses and paths of the workspace; a page can't be led anywhere else.
markdown.validateLink = (url) => /^(?:https?:|[^:]*$)/i.test(url.trim());

markdown.renderer.rules["link_open"] = (tokens, index, options, _env, self) => {
  const token = tokens[index];
  const href = String(token?.attrGet("href") ?? "");
  if (token) {
    token.attrs = [
      ["href", "#"],
      ["data-href", href],
      ["title", href],
    ];
  }
  return self.renderToken(tokens, index, options);
};

/** A path with an extension or a directory, and maybe a line: what agents write between backticks to name a file. */
const PATH = /^(?:\.{1,2}\/)?(?:[\w@.+-]+\/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,9}(?::\d+(?:[:-]\d+)?)?$/;
/** Ends of what looks like a path and is a member, a host or a version. */
const NOT_FILES = /^(?:[\w$]+\.(?:length|prototype|name|map|push|log|com|org|net|io)|e\.g|i\.e)$/i;

/** The link of a file that is named as code; none if it names none. */
export function fileLink(text: string): string | undefined {
  if (text.length > 200 || !PATH.test(text) || NOT_FILES.test(text)) return undefined;
  // A line, and no column or end of a range.
  return encodeURI(text.replace(/(:\d+)[:-]\d+$/, "$1"));
}

markdown.renderer.rules["code_inline"] = (tokens, index) => {
  const text = tokens[index]?.content ?? "";
  const href = fileLink(text);
  const code = `<code>${escapeHtml(text)}</code>`;
  // A link within a link would end the outer one.
  const isLinked = tokens.slice(0, index).reduce((open, { type }) => open + (type === "link_open" ? 1 : type === "link_close" ? -1 : 0), 0) > 0;
  return href === undefined || isLinked ? code : `<a href="#" data-href="${escapeHtml(href)}" title="Open ${escapeHtml(text)}">${code}</a>`;
};

// A long line scrolls within its block, also by keys. The buttons are the page's own; see `actOnCode`.
markdown.renderer.rules.fence = (tokens, index) => {
  const { info = "", content = "" } = tokens[index] ?? {};
  const language = /^[\w+#.-]+/.exec(info.trim())?.[0] ?? "";
  const name = escapeHtml(language);
  return (
    `<div class="code" data-language="${name}"><div class="bar"><span>${name || "text"}</span>` +
    `<button type="button" class="icon" data-code="copy">Copy</button>` +
    `<button type="button" class="icon" data-code="insert" title="Insert at the cursor of the active editor">Insert</button></div>` +
    `<pre tabindex="0"><code>${highlight(content, language)}</code></pre></div>\n`
  );
};
markdown.renderer.rules["code_block"] = markdown.renderer.rules.fence;
markdown.renderer.rules["table_open"] = () => '<div class="table" tabindex="0"><table>';
markdown.renderer.rules["table_close"] = () => "</table></div>";

/** Markdown as HTML. */
export function toHtml(text: string): string {
  return markdown.render(text);
}

/** What a button of a code block asks for; none where something else was clicked. */
export function actOnCode(target: Element): { readonly action: "copy" | "insert"; readonly code: string; readonly language: string } | undefined {
  const action = target.closest<HTMLElement>("[data-code]")?.dataset["code"];
  const block = target.closest<HTMLElement>(".code");
  const code = block?.querySelector("pre")?.textContent;
  if ((action !== "copy" && action !== "insert") || code == null) return undefined;
  return { action, code: code.replace(/\n$/, ""), language: block?.dataset["language"] ?? "" };
}
