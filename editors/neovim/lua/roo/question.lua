-- A question of a task: its suggestions, or an answer in the user's own words.

local ask = require('roo.ask')
local client = require('roo.client')

local M = {}

---@param question roo.Question
---@param text string
function M.answer(question, text)
  client.request_in(question.task.request.folder, 'roo/question/answer', { questionId = question.questionId, text = text }, function(result)
    if result.waits then
      client.notify(('earlier turns are summarised before the next model request; this still waits: %s'):format(question.text))
    elseif not result.accepted then
      client.notify(('%s answered first: %s'):format(result.by, question.text))
    elseif result.interrupted then
      client.go_on(question.task.request)
    end
  end)
end

---@param question roo.Question
local function own_words(question)
  if question.secret then
    local text = vim.fn.inputsecret(question.text .. ' ')
    if text:find('%S') then
      M.answer(question, text)
    end
    return
  end
  ask.input({ prompt = question.text .. ' ', draft = 'answer ' .. question.questionId }, function(text)
    if text and text:find('%S') then
      M.answer(question, text)
    end
  end)
end

--- Asks the user. To close the choice puts the answer off.
---@param question roo.Question
function M.ask(question)
  if #question.suggestions == 0 then
    own_words(question)
    return
  end
  local choices = {}
  for _, suggestion in ipairs(question.suggestions) do
    local mode = suggestion.mode and (' (continues in the mode %s)'):format(suggestion.mode) or ''
    table.insert(choices, { label = suggestion.text .. mode, text = suggestion.text })
  end
  table.insert(choices, { label = 'Something else …' })
  ask.select(choices, {
    prompt = question.text,
    kind = 'roo_question',
    format_item = function(choice)
      return choice.label
    end,
  }, function(choice)
    if choice and choice.text then
      M.answer(question, choice.text)
    elseif choice then
      own_words(question)
    end
  end)
end

return M
