-- The user's options: `vim.g.roo`, a table, read when it is needed.

local M = {}

---@class roo.Options
---@field typed boolean Speak `roo/*` with the server; off, everything goes by plain LSP.
---@field open boolean Show a task in a window of its own as soon as it begins.
---@field split 'right'|'left'|'below'|'above' Where that window is.
---@field size number Its part of the editor, between 0 and 1.
---@field restart boolean Start the server again when it ends by itself.
---@field notify boolean Say with a message that something waits for the user.
---@field review roo.ReviewView How the review shows edits at first.
local defaults = {
  typed = true,
  open = true,
  split = 'right',
  size = 0.5,
  restart = true,
  notify = true,
  review = 'diff',
}

--- All options, with the defaults for those that the user left out.
---@return roo.Options
function M.get()
  return vim.tbl_extend('force', defaults, vim.g.roo or {})
end

--- What is wrong with the user's options, in words.
---@return string[]
function M.problems()
  local problems = {}
  if vim.g.roo ~= nil and type(vim.g.roo) ~= 'table' then
    return { 'vim.g.roo must be a table' }
  end
  for name, value in pairs(vim.g.roo or {}) do
    if defaults[name] == nil then
      table.insert(problems, ('vim.g.roo.%s is no option of roo'):format(name))
    elseif type(value) ~= type(defaults[name]) then
      table.insert(problems, ('vim.g.roo.%s must be a %s'):format(name, type(defaults[name])))
    end
  end
  local review = (vim.g.roo or {}).review
  if type(review) == 'string' and not vim.list_contains({ 'diff', 'sides', 'file' }, review) then
    table.insert(problems, ('vim.g.roo.review must be "diff", "sides" or "file", not "%s"'):format(review))
  end
  table.sort(problems)
  return problems
end

return M
