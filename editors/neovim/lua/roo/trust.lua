-- Trust: whether what the workspace brings may steer agents. A task doesn't wait for it.

local ask = require('roo.ask')
local client = require('roo.client')

local M = {}

--- What waits for a decision, as choices.
---@param report table What `roo/trust/get` answers.
---@return {text: string, grant: table}[]
local function open_decisions(report)
  local decisions = {}
  if not report.trusted and #report.brings > 0 then
    table.insert(decisions, {
      text = 'Trust this workspace: ' .. table.concat(report.brings, ', '),
      grant = vim.empty_dict(),
    })
  end
  for _, pending in ipairs(report.pendingApprovals) do
    local grant = { path = pending.path, digest = pending.digest }
    local what = table.concat(pending.widens, ', ')
    if pending.kind == 'delegation' then
      local refused = vim.tbl_extend('force', grant, { refuse = true })
      local no = ("No, the modes of %s don't delegate to each other"):format(pending.path)
      table.insert(decisions, { text = 'Yes, ' .. what, grant = grant })
      table.insert(decisions, { text = no, grant = refused })
    else
      local text = ('Allow the current version of %s: %s'):format(pending.path, what)
      table.insert(decisions, { text = text, grant = grant })
    end
  end
  return decisions
end

--- Says once for each server that there is something to decide.
---@param found vim.lsp.Client
function M.look(found)
  found:request('roo/trust/get', vim.empty_dict(), function(_, report)
    local decisions = report and open_decisions(report) or {}
    local only_delegation = report and report.trusted
      and vim.iter(report.pendingApprovals):all(function(pending)
        return pending.kind == 'delegation'
      end)
    if #decisions > 0 then
      local what = only_delegation and "may this workspace's modes delegate to each other?"
        or 'this workspace contains files that would steer agents'
      client.notify(what .. ' (:Roo trust)', vim.log.levels.WARN)
    end
  end)
end

--- Lets the user decide.
---@param folder? string The folder of the workspace.
function M.ask(folder)
  client.request_in(folder, 'roo/trust/get', vim.empty_dict(), function(report)
    local decisions = open_decisions(report)
    if #decisions == 0 then
      client.notify(report.trusted and 'this workspace is trusted' or 'this workspace has no files that steer agents')
      return
    end
    -- The harmless one first.
    table.insert(decisions, 1, { text = 'Later' })
    ask.select(decisions, {
      prompt = 'May this steer agents?',
      kind = 'roo_trust',
      format_item = function(decision)
        return decision.text
      end,
    }, function(decision)
      if decision and decision.grant then
        client.request_in(folder, 'roo/trust/grant', decision.grant, function(now)
          client.notify((decision.grant.refuse and 'kept: ' or 'granted: ') .. decision.text)
          -- What a trusted workspace asks next.
          if not report.trusted and #open_decisions(now) > 0 then
            M.ask(folder)
          end
        end)
      end
    end)
  end)
end

return M
