// A model's Markdown as safe HTML: no markup of its own, no images, links that only the extension may open.
import MarkdownIt from "markdown-it";

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

// A long line scrolls within its block, also by keys.
const fence = markdown.renderer.rules.fence;
markdown.renderer.rules.fence = (...parts) => (fence?.(...parts) ?? "").replace(/^<pre/, '<pre tabindex="0"');
markdown.renderer.rules["table_open"] = () => '<div class="table" tabindex="0"><table>';
markdown.renderer.rules["table_close"] = () => "</table></div>";

/** Markdown as HTML. */
export function toHtml(text: string): string {
  return markdown.render(text);
}
