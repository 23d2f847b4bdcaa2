# Writes C++ that defines the texts of files, for an executable that can be moved:
#   cmake -DOUTPUT=FILE.cpp -DNAMES=one,two -DFILES=path1,path2 -P EmbedFiles.cmake
# defines `extern const std::string_view one, two` of namespace dtc.
string(REPLACE "," ";" NAMES "${NAMES}")
string(REPLACE "," ";" FILES "${FILES}")
set(code "#include <string_view>\n\nnamespace dtc {\n")
foreach(name file IN ZIP_LISTS NAMES FILES)
  file(READ "${file}" text)
  string(APPEND code "extern const std::string_view ${name};\n"
    "const std::string_view ${name} = R\"embedded(${text})embedded\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${code}} // namespace dtc\n")
