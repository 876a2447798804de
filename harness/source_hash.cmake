# Writes a header with the source hash that `./nsa-harness source-hash` prints; rewrites it only on a change.
execute_process(COMMAND bash ${ROOT}/nsa-harness source-hash
  OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed OR NOT hash MATCHES "^[0-9a-f]+$")
  message(FATAL_ERROR "nsa-harness source-hash failed: ${hash}")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define NSA_SOURCE_HASH \"@hash@\"\n" @ONLY)
