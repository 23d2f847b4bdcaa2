# Completion of dtc for bash. What there is to complete is asked of dtc itself, so that it is never older than dtc.

# The words at the begin of the lines of a help text's section.
_dtc_section() { sed -n "/^$1/,/^[^ ]/s/^  \\([a-z][a-z-]*\\) .*/\\1/p"; }

_dtc() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=() at=1
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then
    verb=("${COMP_WORDS[1]}")
    [[ ${COMP_WORDS[1]} == data ]] && ((COMP_CWORD > 2)) && verb+=("${COMP_WORDS[2]}")
  fi
  case $previous in
  --strategy) COMPREPLY=($(compgen -W "ddp megatron megatron-sp" -- "$word")) ;;
  --compile-to) COMPREPLY=($(compgen -W "model what where keep how when choices" -- "$word")) ;;
  --target) COMPREPLY=($(compgen -W "cpu cpu:native cpu:x86-64-v3 cpu:x86-64-v4 cuda:sm_80 cuda:sm_90 cuda:sm_100" -- "$word")) ;;
  esac
  ((${#COMPREPLY[@]})) && return
  local help
  if [[ $word == -* ]]; then
    help=$("${COMP_WORDS[0]}" "${verb[@]}" --help 2>/dev/null | grep -oE '(^| |,)--[a-z][a-z-]*' | tr -d ' ,' | sort -u)
    COMPREPLY=($(compgen -W "$help" -- "$word"))
  elif ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == data ]]; }; then
    help=$("${COMP_WORDS[0]}" "${verb[@]}" --help 2>/dev/null | _dtc_section Subcommands)
    COMPREPLY=($(compgen -W "$help" -- "$word"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -F _dtc dtc
