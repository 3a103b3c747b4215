// Whether the server is still starting: what the user asks for meanwhile waits instead of failing.

/** The start of the server, also of one that is restarted. */
export class Startup {
  #over: Promise<void> = Promise.resolve();
  #end: () => void = () => {};

  /** A start begins. */
  begin(): void {
    // Whoever waits for an earlier one waits for this one.
    const before = this.#end;
    this.#over = new Promise((resolve) => {
      this.#end = () => {
        resolve();
        before();
      };
    });
  }

  /** The server can be used, or it is known why it can't. */
  end(): void {
    this.#end();
    this.#end = () => {};
  }

  /** Settled when no start is under way. */
  get over(): Promise<void> {
    return this.#over;
  }
}
