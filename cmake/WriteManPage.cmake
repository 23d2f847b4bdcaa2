# cmake -DHELP2MAN=... -DDTC=... -DVERB="data pack" -DVERSION=... -DOTHERS=dtc,dtc-run -DOUTPUT=... -P WriteManPage.cmake
# A manual page from a verb's --help; without a verb, that of dtc itself.
cmake_minimum_required(VERSION 3.25)
string(REPLACE " " ";" words "${VERB}")
string(REPLACE " " "-" page "dtc ${VERB}")
string(REGEX REPLACE "-$" "" page "${page}")

# The verb in a line, as shells show it.
set(summary "compile models for many devices, run and explain them")
if(VERB)
  execute_process(COMMAND "${DTC}" __complete ${words} OUTPUT_VARIABLE summary COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "^[^\t]*\t([^\n]*)\n.*$" "\\1" summary "${summary}")
endif()

string(REPLACE "," ";" OTHERS "${OTHERS}")
set(include "${OUTPUT}.include")
set(others "")
foreach(other ${OTHERS})
  string(APPEND others "${separator}.BR ${other} (1)")
  set(separator ",\n")
endforeach()
file(WRITE "${include}" "[SEE ALSO]\n${others}\n.PP\nThe documentation is in share/doc/dtc/docs where dtc was installed.\n")
execute_process(COMMAND "${HELP2MAN}" --no-info "--name=${summary}" "--version-string=${VERSION}" "--source=dtc ${VERSION}"
  --manual=dtc "--include=${include}" "${DTC} ${VERB}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${include}")

# help2man takes the executable's name for the page.
string(TOUPPER "${page}" title)
string(REGEX REPLACE "\n\\.TH [^ ]+ " "\n.TH ${title} " text "${text}")
string(REGEX REPLACE "\n\\.SH NAME\n[^\\\\]*" "\n.SH NAME\n${page} " text "${text}")
file(WRITE "${OUTPUT}" "${text}")
