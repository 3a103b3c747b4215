// The MCP servers of the workspace: a list whose states follow the servers, and what can be done with one.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import type { McpListResult, McpServerItem } from "./protocol.ts";
import { plain } from "./words.ts";

/** The most lines of a server's log that are shown. */
const LOG_LINES = 20;

interface Row extends vscode.QuickPickItem {
  readonly server?: McpServerItem;
}

const ICONS: Record<McpServerItem["state"], string> = {
  disabled: "circle-slash",
  waitingForApproval: "shield",
  notStarted: "clock",
  starting: "sync~spin",
  needsLogin: "key",
  connected: "check",
  failed: "error",
};

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`;

/** A server's state in words. */
function stateOf({ state, tools, resources, prompts, retryAfter }: McpServerItem): string {
  switch (state) {
    case "disabled":
      return "switched off";
    case "waitingForApproval":
      return "waits for your approval (Roo: Trust Workspace…)";
    case "notStarted":
      return "starts at its first call";
    case "starting":
      return "starting";
    case "needsLogin":
      return "needs login";
    case "connected": {
      const offers = [count(tools, "tool"), resources > 0 && count(resources, "resource"), prompts > 0 && count(prompts, "prompt")];
      return `connected, ${offers.filter(Boolean).join(", ")}`;
    }
    case "failed":
      return retryAfter === undefined ? "failed" : `failed; started again after ${retryAfter} s`;
  }
}

const RESTART = { iconPath: new vscode.ThemeIcon("debug-restart"), tooltip: "Restart" };
const SWITCH_OFF = { iconPath: new vscode.ThemeIcon("circle-slash"), tooltip: "Switch Off" };
const SWITCH_ON = { iconPath: new vscode.ThemeIcon("play"), tooltip: "Switch On" };

function rowOf(server: McpServerItem): Row {
  const owner = server.owner === "workspace" ? "of the workspace, " : "";
  const runs = ["connected", "failed", "needsLogin", "notStarted", "starting"].includes(server.state);
  const buttons = server.state === "disabled" ? [SWITCH_ON] : runs ? [RESTART, SWITCH_OFF] : [SWITCH_OFF];
  return {
    label: `$(${ICONS[server.state]}) ${server.name}`,
    description: owner + stateOf(server),
    detail: server.reason ?? server.target,
    buttons,
    server,
  };
}

/** The list of servers. */
export class McpServers {
  readonly #changed = new vscode.EventEmitter<McpListResult>();

  /** Takes `roo/mcp/changed`. */
  take(result: McpListResult): void {
    this.#changed.fire(result);
  }

  /** Shows the servers until the user closes the list or looks at one. */
  async show(connection: Connection): Promise<void> {
    const picked = await this.#pick(connection);
    if (picked) await lookAt(connection, picked);
  }

  async #pick(connection: Connection): Promise<McpServerItem | undefined> {
    const list = vscode.window.createQuickPick<Row>();
    list.title = "MCP servers";
    list.placeholder = "Select a server to see its tools and its log";
    const fill = ({ servers }: McpListResult): void => {
      const active = list.activeItems[0]?.server?.name;
      list.items = servers.length > 0 ? servers.map(rowOf) : [{ label: "No MCP servers are configured here", detail: "roo-lsp mcp add adds one." }];
      const kept = list.items.find((row) => row.server?.name === active) ?? list.items[0];
      list.activeItems = kept ? [kept] : [];
    };
    const following = this.#changed.event(fill);
    try {
      list.show();
      list.busy = true;
      fill(await connection.request("roo/mcp/list", {}));
      list.busy = false;
      return await new Promise<McpServerItem | undefined>((resolve) => {
        list.onDidTriggerItemButton(({ button, item: { server } }) => {
          if (server) void act(connection, server, button).catch((error: unknown) => vscode.window.showErrorMessage(`Roo: ${String(error)}`));
        });
        list.onDidAccept(() => resolve(list.selectedItems[0]?.server));
        list.onDidHide(() => resolve(undefined));
      });
    } finally {
      following.dispose();
      list.dispose();
    }
  }
}

async function act(connection: Connection, { name: server }: McpServerItem, button: vscode.QuickInputButton): Promise<void> {
  if (button === RESTART) await connection.request("roo/mcp/restart", { server });
  else await connection.request("roo/mcp/enable", { server, enabled: button === SWITCH_ON });
}

/** Shows what a server offers, and the last lines of its log. */
async function lookAt(connection: Connection, { name: server, target }: McpServerItem): Promise<void> {
  const [{ tools, leftOut }, { lines }] = await Promise.all([
    connection.request("roo/mcp/tools", { server }),
    connection.request("roo/mcp/log", { server }),
  ]);
  const heading = (label: string): vscode.QuickPickItem => ({ label, kind: vscode.QuickPickItemKind.Separator });
  const items: vscode.QuickPickItem[] = [
    heading("Tools"),
    ...tools.map((tool) => ({ label: plain(tool.name), description: tool.alwaysAllowed ? "always allowed" : "", detail: plain(tool.description) })),
    ...leftOut.map((tool) => ({ label: plain(tool.name), description: "left out", detail: plain(tool.reason) })),
    heading("Log"),
    ...lines.slice(-LOG_LINES).map((line) => ({ label: plain(line) })),
  ];
  await vscode.window.showQuickPick(items, { title: `${server}: ${target}`, placeHolder: "What the server says of itself is not checked" });
}
