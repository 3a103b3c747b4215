// As much of VS Code's API as the store, the controller and some commands need to run without an editor. It takes the place of `vscode` in modules
// that are imported after this one, by `await import(…)`.
import { registerHooks } from "node:module";

registerHooks({
  resolve: (specifier, context, next) => (specifier === "vscode" ? { url: import.meta.url, shortCircuit: true } : next(specifier, context)),
});

/** Tells listeners of what happens. */
export class EventEmitter<T> {
  readonly #listeners = new Set<(event: T) => void>();
  readonly event = (listener: (event: T) => void): { dispose(): void } => {
    this.#listeners.add(listener);
    return { dispose: () => void this.#listeners.delete(listener) };
  };

  fire(event: T): void {
    for (const listener of this.#listeners) listener(event);
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

/** The texts of the notifications that were shown. */
export const notifications: string[] = [];

/** A list that the user chooses from. */
class QuickPick {
  items: readonly { readonly label: string }[] = [];
  #press: (event: { item: unknown }) => void = () => {};
  onDidTriggerItemButton = (listener: (event: { item: unknown }) => void): void => void (this.#press = listener);
  onDidAccept = (): void => {};
  onDidHide = (): void => {};
  dispose(): void {}

  show(): void {
    lists.shown(this);
  }

  /** Presses the button of a row, and lets what follows happen. */
  async press(item: unknown): Promise<void> {
    this.#press({ item });
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The lists that are shown. */
export const lists = {
  shown: (_list: QuickPick): void => {},
  next: async (): Promise<QuickPick> => new Promise((resolve) => (lists.shown = resolve)),
};

const notify = async (text: string): Promise<undefined> => void notifications.push(text);
export const window = { showInformationMessage: notify, showWarningMessage: notify, showErrorMessage: notify, createQuickPick: () => new QuickPick() };

/** The commands that were registered. */
export const registered = new Map<string, (argument?: unknown) => Promise<unknown>>();

export const commands = {
  executeCommand: async (): Promise<undefined> => undefined,
  registerCommand: (name: string, run: (argument?: unknown) => Promise<unknown>): void => void registered.set(name, run),
};
export const workspace = { getConfiguration: () => ({ get: () => undefined, inspect: () => undefined }) };

export class Disposable {
  static from(): Disposable {
    return new Disposable();
  }
}
export class ThemeColor {}
export class ThemeIcon {}
export class Uri {}
