// The picker of profiles, with what their models hold and cost.
import * as vscode from "vscode";
import type { ModelItem, ProfileItem } from "./protocol.ts";
import { modelFacts } from "./words.ts";

/** A profile, or the wish to set up another model. */
export type Picked = { readonly profile: string } | "setUp";

interface Choice extends vscode.QuickPickItem {
  readonly profile?: string;
}

/** Asks for a profile. What isn't known of a model yet is asked for by `learn` while the list is open already. */
export async function pickProfile(
  profiles: readonly ProfileItem[],
  known: Readonly<Record<string, ModelItem>>,
  learn: (profile: ProfileItem) => Promise<ModelItem | undefined>,
): Promise<Picked | undefined> {
  const pick = vscode.window.createQuickPick<Choice>();
  pick.title = "Which model?";
  pick.placeholder = "For this task and for new ones in this workspace";
  pick.matchOnDescription = true;
  pick.matchOnDetail = true;
  const models: Record<string, ModelItem> = { ...known };
  const draw = (): void => {
    const active = pick.activeItems[0]?.profile;
    const choices = profiles.map((profile): Choice => {
      const model = models[profile.name];
      return {
        label: profile.model ?? profile.name,
        description: [profile.name, profile.provider, profile.isDefault && "default"].filter(Boolean).join(" · "),
        detail: (model && modelFacts(model)) || " ",
        profile: profile.name,
      };
    });
    const more: Choice = { label: "$(add) Set up another model…", alwaysShow: true };
    pick.items = [...choices, more];
    const again = pick.items.find((one) => one.profile !== undefined && one.profile === active);
    if (again) pick.activeItems = [again];
  };
  draw();
  pick.busy = true;
  const learning = profiles.map(async (profile) => {
    const model = await learn(profile);
    if (!model) return;
    models[profile.name] = model;
    draw();
  });
  void Promise.allSettled(learning).then(() => (pick.busy = false));
  return new Promise((resolve) => {
    pick.onDidAccept(() => {
      const [choice] = pick.selectedItems;
      resolve(choice && (choice.profile === undefined ? "setUp" : { profile: choice.profile }));
      pick.hide();
    });
    pick.onDidHide(() => {
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
  });
}
