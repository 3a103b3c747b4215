// As much of VS Code's API as the store and the controller need to run without an editor. It takes the place of `vscode` in modules
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

const notify = async (text: string): Promise<undefined> => void notifications.push(text);
export const window = { showInformationMessage: notify, showWarningMessage: notify, showErrorMessage: notify };
export const commands = { executeCommand: async (): Promise<undefined> => undefined };
export const workspace = { getConfiguration: () => ({ get: () => undefined, inspect: () => undefined }) };
