// The invocation tree of the request that is shown: who works on what. In an editor it is a view of its own (`../tree.ts`).
import type { TaskId, TreeNode } from "../protocol.ts";
import type { Request } from "../state.ts";
import { h } from "../webview/dom.ts";
import { cost, STATES } from "../words.ts";

/** The tree; a node shows its branch alone, the root everything. */
export function tree(request: Request | undefined, show: (node: TreeNode | undefined) => void): HTMLElement {
  const nodes = request?.nodes ?? [];
  if (nodes.length === 0) return h("p", { class: "reason" }, "Tasks and their branches are shown here once a task runs.");
  return h("nav", { class: "tree", "aria-label": "Tasks and branches" }, level(nodes, undefined, show));
}

function level(nodes: readonly TreeNode[], parent: TaskId | undefined, show: (node: TreeNode | undefined) => void): HTMLElement {
  const children = nodes.filter((node) => (node.parentId ?? undefined) === parent);
  return h(
    "ul",
    {},
    ...children.map((node) => {
      const { sign, word } = STATES[node.state];
      const rest = [word, node.mode, cost(node.tokens, node.costUsd)].filter(Boolean).join(" · ");
      const open = (): void => show(node.parentId == null ? undefined : node);
      const below = nodes.some((one) => one.parentId === node.id) && level(nodes, node.id, show);
      return h(
        "li",
        {},
        h("button", { type: "button", class: "entry", "data-task": node.id, click: open }, h("span", { class: "title" }, `${node.emoji} ${node.title}`), h("span", { class: `rest state-${node.state}` }, `${sign} ${rest}`)),
        below,
      );
    }),
  );
}
