-- The highlight groups, linked to those that every colour scheme has.

local M = {}

local links = {
  RooHeading = 'Title',
  RooPrompt = 'Statement',
  RooUser = 'Statement',
  RooQuiet = 'Comment',
  RooTool = 'Identifier',
  RooToolFailed = 'DiagnosticError',
  RooWaiting = 'DiagnosticWarn',
  RooRunning = 'DiagnosticInfo',
  RooCompleted = 'DiagnosticOk',
  RooFailed = 'DiagnosticError',
  RooResult = 'DiagnosticOk',
  RooError = 'DiagnosticError',
  RooAdded = 'Added',
  RooRemoved = 'Removed',
  RooHunk = 'Changed',
  RooKey = 'Special',
  RooChangeOld = 'DiffDelete',
  RooChangeNew = 'DiffAdd',
  RooChangeRefused = 'Comment',
}

function M.define()
  for name, target in pairs(links) do
    vim.api.nvim_set_hl(0, name, { default = true, link = target })
  end
end

--- The group for the lines of a unified diff.
---@param line string
---@return string?
function M.of_diff(line)
  if line:find('^%+%+%+ ') or line:find('^%-%-%- ') then
    return 'RooQuiet'
  elseif line:find('^@@') then
    return 'RooHunk'
  elseif line:find('^%+') then
    return 'RooAdded'
  elseif line:find('^%-') then
    return 'RooRemoved'
  end
end

local states = {
  waiting = 'RooWaiting',
  running = 'RooRunning',
  paused = 'RooRunning',
  interrupted = 'RooWaiting',
  completed = 'RooCompleted',
  failed = 'RooFailed',
  cancelled = 'RooFailed',
}

--- The group for the state of a task.
---@param state string
---@return string
function M.of_state(state)
  return states[state] or 'RooHeading'
end

return M
