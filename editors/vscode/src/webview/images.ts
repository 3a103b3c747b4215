// The images that go along with the next message: pasted, dropped or chosen.
import type { Announcer } from "./announcer.ts";
import { h } from "./dom.ts";
import { icon } from "./icons.ts";

/** What models take, as a data URL. */
const DATA = /^data:image\/(?:png|jpeg|gif|webp);base64,/;
/** The largest image, in bytes, and the most of a message: what is sent is kept in the request's log. */
const LARGEST = 4 << 20;
const MOST = 8;

/** An image as an element; none for what is no image that models take. Nothing is fetched for it. */
export function image(url: string, name: string): HTMLImageElement | undefined {
  return DATA.test(url) ? h("img", { src: url, alt: name }) : undefined;
}

/** The list of them in the composer. */
export class Images {
  readonly button = h("button", { id: "attach", type: "button", class: "icon", title: "Attach images" }, icon("image"), h("span", { class: "unseen" }, "Image…"));
  /** The editor's own dialogue for files, which the button opens. */
  readonly chooser: HTMLInputElement;
  /** What can't be sent, for who sees; others are told. */
  readonly #refused = h("p", { class: "note bad", hidden: true });
  readonly #list = h("ul", { "aria-label": "Images of the message", hidden: true });
  readonly element = h("div", { id: "images" }, this.#list, this.#refused);
  readonly #announcer: Announcer;
  #urls: readonly string[] = [];

  constructor(announcer: Announcer) {
    this.#announcer = announcer;
    const chooser = h("input", { type: "file", accept: "image/png,image/jpeg,image/gif,image/webp", multiple: true, hidden: true, "aria-label": "Images" });
    chooser.addEventListener("change", () => {
      // The list itself is emptied with the field.
      void this.add([...(chooser.files ?? [])]);
      chooser.value = "";
    });
    this.button.addEventListener("click", () => chooser.click());
    this.chooser = chooser;
  }

  /** Takes the images of what was pasted or dropped. Whether there were any. */
  take(data: DataTransfer | null): boolean {
    const files = [...(data?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (files.length > 0) void this.add(files);
    return files.length > 0;
  }

  /** Adds files, as far as they can be sent. */
  async add(files: Iterable<File>): Promise<void> {
    const said: string[] = [];
    for (const file of files) {
      const url = file.size > LARGEST ? "" : await read(file);
      if (!DATA.test(url)) said.push(`${file.name} can't be sent: a PNG, JPEG, GIF or WebP of at most ${LARGEST >> 20} MiB can.`);
      else if (this.#urls.length >= MOST) said.push(`A message has at most ${MOST} images.`);
      else this.#urls = [...this.#urls, url];
    }
    this.#draw();
    this.#announcer.say([...said, `Attached images: ${this.#urls.length}`].join(" "));
    this.#refused.hidden = said.length === 0;
    this.#refused.textContent = said.join(" ");
  }

  /** Gives all of them away. */
  send(): readonly string[] {
    this.#refused.hidden = true;
    const urls = this.#urls;
    this.#urls = [];
    this.#draw();
    return urls;
  }

  /** Takes back what could not be sent. */
  restore(urls: readonly string[]): void {
    if (this.#urls.length === 0) this.#urls = urls;
    this.#draw();
  }

  #draw(): void {
    this.#list.hidden = this.#urls.length === 0;
    this.#list.replaceChildren(
      ...this.#urls.map((url, index) => {
        const name = `Image ${index + 1}`;
        const remove = (): void => {
          this.#urls = this.#urls.toSpliced(index, 1);
          this.#draw();
          this.button.focus();
        };
        return h("li", {}, image(url, name), h("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, click: remove }, "✕"));
      }),
    );
  }
}

async function read(file: File): Promise<string> {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => resolve(""));
    reader.readAsDataURL(file);
  });
}
