# Completion of dtc for bash. dtc itself completes the command line, so this is never older than dtc.

_dtc() {
  local words=() word glued='' line
  # Readline also splits words at ':' and '='; they are joined again to what dtc will see.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if ((${#words[@]})) && [[ $glued || $word == [:=]* ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    [[ $word == [:=] ]] && glued=1 || glued=
  done
  word=${words[-1]}
  local seen=${word%"${word##*[:=]}"} # without the part of the word that readline keeps as it is
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${word#"$seen"}")
    else
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$seen"}")
    fi
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _dtc dtc
