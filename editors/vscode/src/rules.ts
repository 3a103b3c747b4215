// Standing rules: listed, and removed.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";

/** Shows the standing rules of the workspace; those that the user picks are removed. */
export async function reviewRules(connection: Connection): Promise<void> {
  const { rules } = await connection.request("roo/rule/list", {});
  if (rules.length === 0) {
    void vscode.window.showInformationMessage("Roo: this workspace has no standing rules.");
    return;
  }
  const items = rules.map(({ ruleId, text, verdict, createdAt, by }) => ({
    label: text,
    description: `${verdict === "allow" ? "allowed" : "refused"} ${new Date(createdAt).toLocaleDateString()} by ${by}`,
    ruleId,
  }));
  const picked = await vscode.window.showQuickPick(items, {
    title: "Standing rules",
    placeHolder: "Select the rules to remove, then press Enter",
    canPickMany: true,
  });
  for (const { ruleId } of picked ?? []) await connection.request("roo/rule/revoke", { ruleId });
  if (picked && picked.length > 0) void vscode.window.showInformationMessage(`Roo: removed rules: ${picked.map((one) => one.label).join(", ")}.`);
}
