" What models write: the Markdown that fits on a line. Nothing spans lines, so that text which is still being
" written can't colour what comes after it.

if exists('b:current_syntax')
  finish
endif

syntax match rooCode /`[^`]\+`/
syntax match rooBold /\*\*[^*]\+\*\*/
syntax match rooHeading /^\s*#\{1,6} .*/
syntax match rooFence /^\s*```.*/
syntax match rooBullet /^\s*\zs[-*] \ze/
syntax match rooMention /\%(^\|\s\)\zs@\S\+/

highlight default link rooCode String
highlight default rooBold cterm=bold gui=bold
highlight default link rooHeading Title
highlight default link rooFence Comment
highlight default link rooBullet Special
highlight default link rooMention Underlined

let b:current_syntax = 'roo'
