// Builds elements without a single line of markup, so that no text can become any.

type Child = Node | string | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

/** An element. A function attribute is a listener; `false` and undefined leave an attribute out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== undefined && child !== false && child !== ""));
  return element;
}

/** A sentence of the server, with what stands between backticks as code. */
export function withCode(text: string): Child[] {
  return text.split(/`([^`\n]+)`/).map((part, index) => (index % 2 === 1 ? h("code", {}, part) : part));
}

/** A list whose elements are kept while what they show stays the same. */
export class KeyedList<T> {
  readonly #parent: HTMLElement;
  readonly #key: (value: T) => string;
  readonly #render: (value: T, before: HTMLElement | undefined) => HTMLElement;
  #shown = new Map<string, { value: T; extra: string; element: HTMLElement }>();

  constructor(
    parent: HTMLElement,
    key: (value: T) => string,
    render: (value: T, before: HTMLElement | undefined) => HTMLElement,
  ) {
    this.#parent = parent;
    this.#key = key;
    this.#render = render;
  }

  /** Shows these values. `extra` is what an element depends on besides its value. */
  update(values: readonly T[], extra: (index: number) => string = () => ""): void {
    const next = new Map<string, { value: T; extra: string; element: HTMLElement }>();
    let place: ChildNode | null = this.#parent.firstChild;
    values.forEach((value, index) => {
      const key = this.#key(value);
      const more = extra(index);
      const old = this.#shown.get(key);
      const kept = old !== undefined && old.value === value && old.extra === more;
      const element = kept ? old.element : this.#render(value, old?.element);
      if (old && old.element !== element) {
        if (place === old.element) place = element;
        old.element.replaceWith(element);
      }
      if (place === element) place = element.nextSibling;
      else this.#parent.insertBefore(element, place);
      next.set(key, { value, extra: more, element });
    });
    for (const [key, { element }] of this.#shown) if (!next.has(key)) element.remove();
    this.#shown = next;
  }
}
