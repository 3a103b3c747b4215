// Keys as this machine's keyboard has them.

const IS_MAC = /Mac/.test(navigator.platform);

/** A shortcut as it is pressed here: `Ctrl` is `Cmd` on a Mac. */
export function shortcut(keys: string): string {
  return IS_MAC ? keys.replaceAll("Ctrl", "Cmd") : keys;
}
